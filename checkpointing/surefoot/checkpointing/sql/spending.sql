-- What calls of models cost. The holder knows all sums: it writes them as they are, never as a
-- difference, so that a statement whose answer was lost may simply be repeated.

-- name: write
-- Steps of orders are the outbox's: only our part of the column is exchanged.
update surefoot.tasks set
    steps = steps - call_steps + %(call_steps)s,
    call_steps = %(call_steps)s,
    tokens = %(tokens)s,
    cost_usd = %(cost_usd)s,
    reserved_tokens = %(reserved_tokens)s,
    reserved_cost_usd = %(reserved_cost_usd)s
where id = %(task_id)s and lease_epoch = %(epoch)s
returning 1
