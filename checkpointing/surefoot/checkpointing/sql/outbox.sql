-- What leaves with a checkpoint: parts of ONE statement, composed in outbox.py from those needed.
-- Every part reads `fence`; where it is empty nothing is written.

-- name: fence
-- The holder's right to write. KEY SHARE lets a heartbeat pass and makes a take-over wait for us.
fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
)

-- name: subtasks
-- Changes only the keys a row names; a new row starts from the blanks of a pending subtask.
-- The scalar subquery cannot become a join, so it stays one index look-up per row at any size.
subtasks_in as (
    insert into surefoot.subtasks
    select n.*
    from fence
    cross join jsonb_array_elements(%(subtasks)s::jsonb) as r (changes)
    cross join lateral jsonb_populate_record(
        coalesce(
            (select s from surefoot.subtasks s where s.task_id = fence.id and s.id = r.changes ->> 'id'),
            row(
                fence.id, r.changes ->> 'id', null, null, 'pending', 0, 0, 0, false, null, null,
                null, null, null, null, null, null, null, null, null, null
            )::surefoot.subtasks
        ),
        r.changes
    ) as n
    on conflict (task_id, id) do update set
        parent = excluded.parent, kind = excluded.kind, state = excluded.state,
        attempt = excluded.attempt, attempts = excluded.attempts, rung = excluded.rung,
        degraded = excluded.degraded, tool = excluded.tool, step = excluded.step,
        step_state = excluded.step_state, since = excluded.since,
        started_at = excluded.started_at, ended_at = excluded.ended_at,
        not_before = excluded.not_before, result = excluded.result, failure = excluded.failure,
        reason = excluded.reason, n = excluded.n, marks = excluded.marks
)

-- name: events
events_in as (
    insert into surefoot.events (task_id, time, type, subtask, attempt, facts)
    select fence.id, to_timestamp(e.time), e.type, e.subtask, e.attempt, e.facts
    from fence cross join rows from (
        jsonb_to_recordset(%(events)s::jsonb)
            as (time double precision, type text, subtask text, attempt int, facts jsonb)
    ) with ordinality as e (time, type, subtask, attempt, facts, place)
    order by e.place
)

-- name: artifacts
-- The next version of each name; a row that is already the newest version is not repeated.
artifacts_in as (
    insert into surefoot.artifacts
        (task_id, subtask, name, version, attempt, sha256, size, media_type, at)
    select
        fence.id, a.subtask, a.name,
        coalesce(newest.version, 0) + row_number() over (partition by a.subtask, a.name order by a.place),
        a.attempt, a.sha256, a.size, a.media_type, to_timestamp(a.at)
    from fence cross join rows from (
        jsonb_to_recordset(%(artifacts)s::jsonb)
            as (subtask text, name text, attempt int, sha256 text, size bigint, media_type text, at double precision)
    ) with ordinality as a (subtask, name, attempt, sha256, size, media_type, at, place)
    left join lateral (
        select o.version, o.sha256, o.attempt, o.withdrawn_at from surefoot.artifacts o
        where o.task_id = fence.id and o.subtask = a.subtask and o.name = a.name
        order by o.version desc limit 1
    ) newest on true
    where newest.version is null or newest.withdrawn_at is not null
        or (newest.sha256, newest.attempt) <> (a.sha256, a.attempt)
)

-- name: withdrawals
-- What was taken back is good no more: versions of a subtask (and what is inside it) up to now.
-- Each version looks for itself and what it stands in: as many may go at once as the plan is large.
withdrawals_in as (
    update surefoot.artifacts a set withdrawn_at = to_timestamp(gone.at)
    from fence cross join (
        select o.task_id, o.subtask, o.name, o.version, max(w.at) as at
        from fence
        join surefoot.artifacts o on o.task_id = fence.id and o.withdrawn_at is null
        cross join lateral (select string_to_array(o.subtask, '/') as steps) as path
        cross join lateral generate_subscripts(path.steps, 1) as depth
        join jsonb_to_recordset(%(withdrawals)s::jsonb)
            as w (subtask text, kept jsonb, at double precision)
            on w.subtask = array_to_string(path.steps[1:depth], '/')
        where not coalesce(w.kept @> to_jsonb(o.sha256), false)
        group by o.task_id, o.subtask, o.name, o.version
    ) as gone
    where (a.task_id, a.subtask, a.name, a.version)
        = (gone.task_id, gone.subtask, gone.name, gone.version)
)

-- name: snapshots
snapshots_in as (
    insert into surefoot.snapshots
        (task_id, tier, subtask, attempt, milestone, manifest, state, environment, files, bytes, at)
    select
        fence.id, s.tier, s.subtask, s.attempt, s.milestone, s.manifest, s.state, s.environment,
        s.files, s.bytes, to_timestamp(s.at)
    from fence cross join jsonb_to_recordset(%(snapshots)s::jsonb) as s (
        tier text, subtask text, attempt int, milestone text, manifest jsonb, state jsonb,
        environment jsonb, files int, bytes bigint, at double precision
    )
)

-- name: plans
plans_in as (
    insert into surefoot.plans (task_id, version, plan, reason, at)
    select fence.id, p.version, p.plan, p.reason, to_timestamp(p.at)
    from fence cross join jsonb_to_recordset(%(plans)s::jsonb)
        as p (version int, plan jsonb, reason text, at double precision)
    on conflict (task_id, version) do update set plan = excluded.plan, reason = excluded.reason
)

-- name: questions
questions_in as (
    insert into surefoot.questions
    select n.*
    from fence
    cross join jsonb_array_elements(%(questions)s::jsonb) as r (changes)
    cross join lateral jsonb_populate_record(
        coalesce(
            (select q from surefoot.questions q where q.task_id = fence.id and q.id = r.changes ->> 'id'),
            row(
                fence.id, r.changes ->> 'id', null, 'ask', '', true, null, now(), null, null, null, null,
                null
            )::surefoot.questions
        ),
        r.changes
    ) as n
    on conflict (task_id, id) do update set
        subtask = excluded.subtask, kind = excluded.kind, text = excluded.text,
        open = excluded.open, answer = excluded.answer,
        asked_at = excluded.asked_at, closed_at = excluded.closed_at,
        schema = excluded.schema, choices = excluded.choices,
        answered_at = excluded.answered_at, answered_by = excluded.answered_by
)

-- name: task
-- outbox.py puts in the columns that change: the row is rewritten at every superstep.
task_in as (
    update surefoot.tasks t set COLUMNS, updated_at = now()
    from fence cross join jsonb_populate_record(null::surefoot.tasks, %(task)s::jsonb) as n
    where t.id = fence.id
)

-- name: writes
-- Same rows as the stock saver: the first write of a (task, index) stands.
writes_in as (
    insert into checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    select %(thread_id)s, %(ns)s, %(parent_id)s, w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
    from fence cross join unnest(
        %(w_task)b::text[], %(w_path)b::text[], %(w_idx)b::int[],
        %(w_channel)b::text[], %(w_type)b::text[], %(w_blob)b::bytea[]
    ) as w (task_id, task_path, idx, channel, type, blob)
    on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do nothing
)

-- name: special_writes
-- Interrupts, errors and answers: the last write stands (as in the stock saver).
writes_in as (
    insert into checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    select %(thread_id)s, %(ns)s, %(parent_id)s, w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
    from fence cross join unnest(
        %(w_task)b::text[], %(w_path)b::text[], %(w_idx)b::int[],
        %(w_channel)b::text[], %(w_type)b::text[], %(w_blob)b::bytea[]
    ) as w (task_id, task_path, idx, channel, type, blob)
    on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do update set
        channel = excluded.channel, type = excluded.type, blob = excluded.blob
)

-- name: blobs
blobs_in as (
    insert into checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    select %(thread_id)s, %(ns)s, b.channel, b.version, b.type, b.blob
    from fence cross join unnest(
        %(b_channel)b::text[], %(b_version)b::text[], %(b_type)b::text[], %(b_blob)b::bytea[]
    ) as b (channel, version, type, blob)
    on conflict (thread_id, checkpoint_ns, channel, version) do nothing
)

-- name: checkpoint
checkpoint_in as (
    insert into checkpoints
        (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    select
        %(thread_id)s, %(ns)s, %(checkpoint_id)s, %(parent_id)s,
        %(checkpoint)s::jsonb, %(metadata)s::jsonb
    from fence
    on conflict (thread_id, checkpoint_ns, checkpoint_id) do update set
        checkpoint = excluded.checkpoint, metadata = excluded.metadata
)

-- name: verdict
-- One row where the fence held, none where the lease was lost.
select id, case when %(notify)s then pg_notify('surefoot', id)::text end as notified from fence

-- name: checkpoint_landed
-- Asked before a repeat: did the statement whose answer was lost commit after all?
select 1 from checkpoints
where thread_id = %(thread_id)s and checkpoint_ns = %(ns)s and checkpoint_id = %(checkpoint_id)s

-- name: newest_thread
-- The thread of a name that was written last, besides one.
select thread_id from checkpoints
where starts_with(thread_id, %(prefix)s) and thread_id <> %(besides)s and checkpoint_ns = ''
order by checkpoint_id desc
limit 1

-- name: thread_begun
-- A thread that has no more than its input (step -1) has not begun: LangGraph drops what an input
-- wrote when another one comes before it was taken in.
select 1 from checkpoints
where thread_id = %(thread_id)s and (metadata ->> 'step')::int >= 0
limit 1

-- name: event_landed
select 1 from surefoot.events
where task_id = %(task_id)s and time = to_timestamp(%(time)s) and type = %(type)s
limit 1
