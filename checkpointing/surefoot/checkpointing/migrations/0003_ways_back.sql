-- Ways back: what workspace and state were, what was taken back, and what people were asked.

-- Snapshots besides LangGraph's own. `before`: what lay under a subtask's `writes` when an attempt
-- began; `full`: what lies there since it was accepted; `complete`: the whole workspace and state.
create table surefoot.snapshots (
    id bigint generated always as identity,
    task_id text not null,
    tier text not null check (tier in ('before', 'full', 'complete')),
    subtask text,
    attempt int,
    milestone text,
    manifest jsonb not null,
    state jsonb,
    environment jsonb,
    files int not null check (files >= 0),
    bytes bigint not null check (bytes >= 0),
    at timestamptz not null,
    primary key (task_id, id),
    check ((tier = 'complete') = (milestone is not null)),
    check ((tier = 'complete') = (subtask is null))
);
create index snapshots_subtask on surefoot.snapshots (task_id, subtask, attempt) where subtask is not null;

alter table surefoot.effects
    -- The subtask that did it was taken back, the effect stands: it answers whoever means it again.
    add column rolled_back boolean not null default false;

alter table surefoot.artifacts
    -- No longer the good version: the attempt or the segment that made it was taken back.
    add column withdrawn_at timestamptz;

alter table surefoot.questions
    -- What an answer must look like (JSON Schema), who gave it and when.
    add column schema jsonb,
    add column choices jsonb,
    add column answered_at timestamptz,
    add column answered_by text;
