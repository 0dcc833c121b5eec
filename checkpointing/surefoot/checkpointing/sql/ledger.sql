-- The effect ledger. Rows of several tasks share a statement; each is behind its own task's fence.

-- name: intend
-- A standing row (intent or done) answers, except for calls that may simply be made again. Our own
-- intent, whose answer was lost on the wire, is known by its time and counts as written.
with calls as materialized (
    select * from rows from (jsonb_to_recordset(%(calls)s::jsonb) as (
        task_id text, epoch bigint, key text, scope text, subtask text, attempt int,
        tool text, effect text, args jsonb, intent_at double precision
    )) with ordinality as c (
        task_id, epoch, key, scope, subtask, attempt, tool, effect, args, intent_at, place
    )
), fence as materialized (
    select t.id from surefoot.tasks t
    where (t.id, t.lease_epoch) in (select task_id, epoch from calls)
    order by t.id
    for key share
), written as (
    insert into surefoot.effects
        (task_id, key, scope, subtask, attempt, tool, effect, state, args, intent_at)
    select
        c.task_id, c.key, c.scope, c.subtask, c.attempt, c.tool, c.effect, 'intent', c.args,
        to_timestamp(c.intent_at)
    from calls c join fence on fence.id = c.task_id
    on conflict (task_id, key, scope) do update set
        subtask = excluded.subtask, attempt = excluded.attempt, tool = excluded.tool,
        effect = excluded.effect, state = excluded.state, args = excluded.args,
        result = null, artifacts = null, note = null, rolled_back = false,
        intent_at = excluded.intent_at, outcome_at = null
    where effects.state in ('failed', 'compensated') or excluded.effect in ('idempotent', 'read')
        or (effects.state = 'intent' and effects.intent_at = excluded.intent_at)
    returning task_id, key, scope
)
select
    exists (select 1 from fence where fence.id = c.task_id) as held,
    exists (
        select 1 from written w
        where w.task_id = c.task_id and w.key = c.key and w.scope = c.scope
    ) as written,
    to_jsonb(e) as standing
from calls c
left join surefoot.effects e on e.task_id = c.task_id and e.key = c.key and e.scope = c.scope
order by c.place

-- name: adopt
-- What a removed or taken back subtask did (or may have done) goes over to the one that means the
-- same call now; what the same subtask had left standing is its own again.
with fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
), own as (
    update surefoot.effects e set rolled_back = false, subtask = %(subtask)s
    from fence
    where (e.task_id, e.key, e.scope) = (fence.id, %(key)s, %(scope)s) and e.rolled_back
    returning 1
), left_over as (
    select e.task_id, e.key, e.scope
    from surefoot.effects e join fence on fence.id = e.task_id
    where e.key = %(key)s and e.state in ('intent', 'done')
        and (e.rolled_back or exists (
            select 1 from unnest(%(removed)s::text[]) as r (id)
            where e.scope = r.id or starts_with(e.scope, r.id || '/')
        ))
        and not exists (
            select 1 from surefoot.effects o
            where o.task_id = e.task_id and o.key = e.key and o.scope = %(scope)s
        )
    order by e.intent_at
    limit 1
), adopted as (
    update surefoot.effects e set scope = %(scope)s, subtask = %(subtask)s, rolled_back = false
    from left_over l
    where (e.task_id, e.key, e.scope) = (l.task_id, l.key, l.scope)
    returning 1
)
select (select count(*) from adopted) as adopted from fence

-- name: settle
with outcomes as materialized (
    select * from rows from (jsonb_to_recordset(%(outcomes)s::jsonb) as (
        task_id text, epoch bigint, key text, scope text, subtask text, attempt int,
        tool text, effect text, args jsonb, intent_at double precision,
        state text, result jsonb, artifacts jsonb, note text, outcome_at double precision
    )) with ordinality as c (
        task_id, epoch, key, scope, subtask, attempt, tool, effect, args, intent_at,
        state, result, artifacts, note, outcome_at, place
    )
), fence as materialized (
    select t.id from surefoot.tasks t
    where (t.id, t.lease_epoch) in (select task_id, epoch from outcomes)
    order by t.id
    for key share
), written as (
    insert into surefoot.effects (
        task_id, key, scope, subtask, attempt, tool, effect, state, args,
        result, artifacts, note, intent_at, outcome_at
    )
    select
        c.task_id, c.key, c.scope, c.subtask, c.attempt, c.tool, c.effect, c.state, c.args,
        c.result, c.artifacts, nullif(c.note, ''), to_timestamp(c.intent_at), to_timestamp(c.outcome_at)
    from outcomes c join fence on fence.id = c.task_id
    on conflict (task_id, key, scope) do update set
        state = excluded.state, result = excluded.result, artifacts = excluded.artifacts,
        note = excluded.note, outcome_at = excluded.outcome_at
    -- A late word about a call that a later attempt has made anew changes nothing.
    where effects.attempt <= excluded.attempt or effects.subtask <> excluded.subtask
    returning 1
)
select exists (select 1 from fence where fence.id = c.task_id) as held
from outcomes c order by c.place

-- name: find
select * from surefoot.effects
where task_id = %(task_id)s and key = %(key)s and scope = %(scope)s
    and state in ('intent', 'done')

-- name: standing
-- Newest first: the order in which they are taken back. The ids are hashed once, and each row looks
-- itself and what it stands in up there: a segment may be as large as the plan.
select * from surefoot.effects e
where task_id = %(task_id)s and state in ('intent', 'done') and not starts_with(key, '#undo-')
    and (%(attempt)s::int is null or attempt = %(attempt)s)
    and exists (
        select 1 from (select string_to_array(e.subtask, '/') as steps) as path
        cross join lateral generate_subscripts(path.steps, 1) as depth
        where array_to_string(path.steps[1:depth], '/')
            = any(%(subtasks)s::text[])
    )
order by coalesce(outcome_at, intent_at) desc, intent_at desc, key

-- name: of_subtask
select * from surefoot.effects where task_id = %(task_id)s and subtask = %(subtask)s
order by coalesce(outcome_at, intent_at) desc, intent_at desc, key

-- name: left_standing
select * from surefoot.effects
where task_id = %(task_id)s and rolled_back and state in ('intent', 'done')
    and not starts_with(key, '#undo-')
order by coalesce(outcome_at, intent_at) desc, key

-- name: leave_standing
with fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
), marked as (
    update surefoot.effects e set rolled_back = true
    from fence, unnest(%(keys)s::text[], %(scopes)s::text[]) as r (key, scope)
    where e.task_id = fence.id and e.key = r.key and e.scope = r.scope
        and e.state in ('intent', 'done')
    returning 1
)
select (select count(*) from marked) as marked from fence
