-- What is not needed any more. Rows of a task are removed behind its lease's fence only.

-- name: remove_thread
with fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
), points as (
    delete from checkpoints c using fence where c.thread_id = %(thread_id)s
), blobs as (
    delete from checkpoint_blobs b using fence where b.thread_id = %(thread_id)s
), writes as (
    delete from checkpoint_writes w using fence where w.thread_id = %(thread_id)s
)
select id from fence

-- name: superseded
-- How many rows of a thread are older than its newest checkpoint, and how many bytes they hold.
with head as (
    select max(checkpoint_id) as id from checkpoints
    where thread_id = %(thread_id)s and checkpoint_ns = ''
), points as (
    select count(*) as n, coalesce(sum(pg_column_size(c.checkpoint)), 0) as bytes
    from checkpoints c, head where c.thread_id = %(thread_id)s and c.checkpoint_id < head.id
), writes as (
    select count(*) as n, coalesce(sum(length(w.blob)), 0) as bytes
    from checkpoint_writes w, head where w.thread_id = %(thread_id)s and w.checkpoint_id < head.id
)
select points.n as checkpoints, points.bytes + writes.bytes as bytes from points, writes

-- name: drop_superseded
-- The head has whole snapshots of every channel: nothing before it is needed to read it.
with fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
), points as (
    delete from checkpoints c using fence
    where c.thread_id = %(thread_id)s and c.checkpoint_id < %(head)s
), writes as (
    delete from checkpoint_writes w using fence
    where w.thread_id = %(thread_id)s and w.checkpoint_id < %(head)s
), blobs as (
    delete from checkpoint_blobs b using fence
    where b.thread_id = %(thread_id)s and not exists (
        select 1 from checkpoints h
        where h.thread_id = b.thread_id and h.checkpoint_ns = b.checkpoint_ns
            and h.checkpoint_id = %(head)s
            and h.checkpoint -> 'channel_versions' ->> b.channel = b.version
    )
), first as (
    update checkpoints h set parent_checkpoint_id = null from fence
    where h.thread_id = %(thread_id)s and h.checkpoint_id = %(head)s
)
select id from fence

-- name: inner_threads
-- Threads of a task's agents and groups, with what they weigh.
select c.thread_id, count(*) as checkpoints,
    coalesce(sum(pg_column_size(c.checkpoint)), 0) as bytes
from checkpoints c where starts_with(c.thread_id, %(prefix)s) group by c.thread_id

-- name: spare_snapshots
-- `before` of subtasks that have ended well since (an attempt that goes on may need the memory of the
-- one that was cut) and have a newer one (who does them again puts back what the newest remembers),
-- with no kept way back between them (there the attempt may have been under way),
-- `full` that a newer one of the subtask follows, complete ones besides the start and the newest few
-- milestones; of a finished task all of them.
with milestones as (
    select milestone, row_number() over (order by max(id) desc) as place
    from surefoot.snapshots
    where task_id = %(task_id)s and tier = 'complete' and milestone <> 'start'
    group by milestone
)
select s.id, s.tier, s.milestone, s.bytes from surefoot.snapshots s
left join surefoot.subtasks t on t.task_id = s.task_id and t.id = s.subtask
where s.task_id = %(task_id)s and (
    %(all)s
    or (s.tier = 'before' and t.state in ('completed', 'skipped')
        and (t.ended_at is null or s.at < t.ended_at)
        and exists (
            select 1 from surefoot.snapshots newer
            where newer.task_id = s.task_id and newer.tier = 'before'
                and newer.subtask = s.subtask and newer.attempt > s.attempt
                and not exists (
                    select 1 from surefoot.snapshots way
                    where way.task_id = s.task_id and way.tier = 'complete'
                        and way.id between s.id and newer.id
                )
        ))
    or (s.tier = 'full' and exists (
        select 1 from surefoot.snapshots newer
        where newer.task_id = s.task_id and newer.tier = 'full' and newer.subtask = s.subtask
            and newer.id > s.id
    ))
    or (s.tier = 'complete' and s.milestone <> 'start' and (
        s.milestone in (select milestone from milestones where place > %(keep)s)
        or exists (
            select 1 from surefoot.snapshots newer
            where newer.task_id = s.task_id and newer.tier = 'complete'
                and newer.milestone = s.milestone and newer.id > s.id
        )
    ))
)

-- name: drop_snapshots
with fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
), gone as (
    delete from surefoot.snapshots s using fence
    where s.task_id = fence.id and s.id = any(%(ids)s)
)
select id from fence

-- name: named_by_people
-- Every sha256 in what readers and the ledger know: contents that are ends in themselves.
select distinct m[1] as sha256 from (
    select sha256 as text from surefoot.artifacts
    union all select result::text from surefoot.subtasks
    union all select concat(result::text, artifacts::text) from surefoot.effects
) named, regexp_matches(named.text, '[0-9a-f]{64}', 'g') as m

-- name: named_by_state
-- Every sha256 in what may name further contents: manifests, documents, lists, answers of models.
select distinct m[1] as sha256 from (
    select concat(manifest::text, state::text, environment::text) as text from surefoot.snapshots
    union all select facts::text from surefoot.events
    union all select plan::text from surefoot.plans
    union all select concat(answer::text, choices::text, schema::text) from surefoot.questions
    union all select concat(args::text, outcome::text) from surefoot.commands
    union all select concat(marks::text, failure::text) from surefoot.subtasks
    union all select args::text from surefoot.effects
    union all select spec::text from surefoot.tasks
    union all select checkpoint::text from checkpoints
    union all select encode(blob, 'escape') from checkpoint_blobs
    union all select encode(blob, 'escape') from checkpoint_writes
) named, regexp_matches(named.text, '[0-9a-f]{64}', 'g') as m

-- name: database_identity
select (select system_identifier from pg_control_system())::text || '-' || d.oid::text as identity
from pg_database d where d.datname = current_database()
