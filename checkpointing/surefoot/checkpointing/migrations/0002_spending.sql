-- What calls of models cost is reserved before they are made. Written by the spending of the
-- task's holder alone; a crash leaves reservations, which count as used when the task is taken up.

alter table surefoot.tasks
    -- Of `steps`, those counted when a model was called. The outbox writes the others.
    add column call_steps bigint not null default 0 check (call_steps >= 0),
    add column reserved_tokens bigint not null default 0 check (reserved_tokens >= 0),
    add column reserved_cost_usd double precision not null default 0 check (reserved_cost_usd >= 0);
