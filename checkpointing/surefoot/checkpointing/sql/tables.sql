-- What a task's tables say beside its checkpoints: to check a state with, or to make one anew.
-- A plan's own rows are those below its prefix without a further slash, and the children of its
-- foreaches; what is inside its groups belongs to other plans.

-- name: tally
select
    count(*) filter (where state in ('completed', 'skipped', 'failed')) as done,
    coalesce(sum(attempts), 0) as ended,
    coalesce(sum(attempt), 0) as attempts
from (
    select state, attempts, attempt, substr(id, length(%(prefix)s) + 1) as local
    from surefoot.subtasks where task_id = %(task_id)s and starts_with(id, %(prefix)s)
) own
where strpos(local, '/') = 0
    or (split_part(local, '/', 3) = '' and split_part(local, '/', 1) = any(%(foreaches)s::text[]))

-- name: rows
select * from (
    select s.*, substr(id, length(%(prefix)s) + 1) as local
    from surefoot.subtasks s where task_id = %(task_id)s and starts_with(id, %(prefix)s)
) own
where strpos(local, '/') = 0
    or (split_part(local, '/', 3) = '' and split_part(local, '/', 1) = any(%(foreaches)s::text[]))

-- name: good_artifacts
select distinct on (subtask, name) substr(subtask, length(%(prefix)s) + 1) as local,
    name, sha256, size, media_type
from surefoot.artifacts
where task_id = %(task_id)s and starts_with(subtask, %(prefix)s) and withdrawn_at is null
order by subtask, name, version desc

-- name: told
select id, time, type, subtask, attempt, facts from surefoot.events
where task_id = %(task_id)s and type = any(%(types)s) order by id

-- name: group_plan
select facts -> 'plan' as plan, (facts ->> 'version')::int as version from surefoot.events
where task_id = %(task_id)s and type = 'GroupPlanned' and subtask = %(group)s
order by id desc limit 1

-- name: asked
select id, substr(subtask, length(%(prefix)s) + 1) as local, kind, choices, open, answer, answered_by
from surefoot.questions
where task_id = %(task_id)s and (subtask is null or starts_with(subtask, %(prefix)s))

-- name: threads
select distinct thread_id from checkpoints where starts_with(thread_id, %(prefix)s)

-- name: whole_workspaces
-- A subtask has a name: '' is the workspace as a person has accepted it.
select coalesce(milestone, '') as milestone, extract(epoch from at)::float8 as at, manifest, state
from surefoot.snapshots
where task_id = %(task_id)s and (tier = 'complete' or subtask = '')
order by id desc
