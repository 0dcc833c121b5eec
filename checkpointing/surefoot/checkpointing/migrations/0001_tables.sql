-- The tables of the first version. Written by one holder of a task at a time (see lease_epoch).
-- Times are timestamptz; readers get them in UTC.

create table surefoot.tasks (
    id text primary key,
    name text not null,
    status text not null default 'queued'
        check (status in ('queued', 'running', 'paused', 'waiting', 'completed', 'failed', 'cancelled')),
    stopping boolean not null default false,
    spec jsonb not null,
    spec_digest text not null,
    graph_version int not null default 0,
    workspace text not null,
    concurrency int not null default 1 check (concurrency >= 1),
    plan_version int not null default 0,
    total int not null default 0 check (total >= 0),
    progress double precision not null default 0 check (progress between 0 and 1),
    progress_at timestamptz not null default now(),
    limits jsonb not null default '{}',
    steps bigint not null default 0,
    tokens bigint not null default 0,
    cost_usd double precision not null default 0,
    seconds double precision not null default 0,
    failures bigint not null default 0,
    failure jsonb,
    milestones jsonb not null default '{}',
    inputs_manifest jsonb,
    tools_digest jsonb,
    priority int not null default 0,
    acquired_by text,
    acquired_until timestamptz,
    lease_epoch bigint not null default 0,
    worker jsonb,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    -- Makes a change of lease_epoch lock the row FOR UPDATE, so that a take-over waits for a
    -- writer that holds it FOR KEY SHARE, while a heartbeat (other columns) does not.
    unique (id, lease_epoch),
    check ((acquired_by is null) = (acquired_until is null))
) with (
    -- A task's row is rewritten at every superstep: room for HOT updates, wide columns out of line.
    fillfactor = 40, toast_tuple_target = 512
);
create index tasks_created_at on surefoot.tasks (created_at);

create table surefoot.plans (
    task_id text not null references surefoot.tasks on delete cascade,
    version int not null check (version >= 1),
    plan jsonb not null,
    reason text not null default '',
    at timestamptz not null default now(),
    primary key (task_id, version)
);

-- Only touched subtasks have a row; without one a subtask is pending.
-- subtasks, events and effects carry no foreign key: every row is written in one statement with the
-- fence, which has locked the task's row, and a check per row would cost more than the row.
create table surefoot.subtasks (
    task_id text not null,
    id text not null,
    parent text,
    kind text,
    state text not null check (state in ('pending', 'running', 'completed', 'failed', 'skipped')),
    attempt int not null,
    attempts int not null check (attempts >= 0),
    rung int not null check (rung >= 0),
    degraded boolean not null,
    tool text,
    step int,
    step_state text check (step_state in ('pending', 'calling', 'succeeded', 'failed', 'retrying')),
    since timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    not_before timestamptz,
    result jsonb,
    failure jsonb,
    reason text,
    n int,
    marks jsonb,
    primary key (task_id, id)
) with (fillfactor = 80);

create table surefoot.events (
    id bigint generated always as identity,
    task_id text not null,
    time timestamptz not null,
    type text not null,
    subtask text,
    attempt int,
    facts jsonb,
    primary key (task_id, id)
);

-- The ledger: what tools did to the world outside. One row per meaning of a call.
create table surefoot.effects (
    task_id text not null,
    key text not null,
    scope text not null,
    subtask text not null,
    attempt int not null,
    tool text not null,
    effect text not null check (effect in ('read', 'idempotent', 'reversible', 'irreversible')),
    state text not null check (state in ('intent', 'done', 'failed', 'compensated')),
    args jsonb not null,
    result jsonb,
    artifacts jsonb,
    note text,
    intent_at timestamptz not null,
    outcome_at timestamptz,
    primary key (task_id, key, scope),
    check ((state = 'intent') = (outcome_at is null))
) with (fillfactor = 70);

create table surefoot.artifacts (
    task_id text not null references surefoot.tasks on delete cascade,
    subtask text not null,
    name text not null check (name <> '' and position('/' in name) = 0),
    version int not null check (version >= 1),
    attempt int not null,
    sha256 text not null check (length(sha256) = 64),
    size bigint not null check (size >= 0),
    media_type text not null,
    at timestamptz not null default now(),
    primary key (task_id, subtask, name, version)
);

create table surefoot.questions (
    task_id text not null references surefoot.tasks on delete cascade,
    id text not null,
    subtask text,
    kind text not null,
    text text not null,
    open boolean not null,
    answer jsonb,
    asked_at timestamptz not null,
    closed_at timestamptz,
    primary key (task_id, id),
    check (not open or closed_at is null)
);
create index questions_open on surefoot.questions (task_id) where open;

create table surefoot.commands (
    id bigint generated always as identity primary key,
    task_id text not null references surefoot.tasks on delete cascade,
    name text not null,
    args jsonb not null default '{}',
    by text not null default '',
    at timestamptz not null default now(),
    applied_at timestamptz,
    outcome jsonb,
    check (outcome is null or applied_at is not null)
);
create index commands_open on surefoot.commands (task_id, id) where applied_at is null;

-- What like work took before: Welford's running mean and sum of squares of log seconds.
create table surefoot.durations (
    name text primary key,
    n bigint not null check (n >= 1),
    log_mean double precision not null,
    log_m2 double precision not null check (log_m2 >= 0),
    updated_at timestamptz not null default now()
);
