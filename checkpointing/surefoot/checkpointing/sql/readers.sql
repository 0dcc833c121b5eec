-- What people and programs look at. Reads only tables, never the graph, and takes no lock.

-- name: task_row
-- Without the plan that the task file gave: of 10,000 subtasks it takes longer to read than all else
-- that a restart needs.
select
    id, name, status, stopping, spec #- '{task,plan}' as spec, spec_digest, graph_version, workspace,
    concurrency, plan_version, total, progress, progress_at, limits, steps, tokens, cost_usd, seconds,
    failures, failure, milestones, inputs_manifest, tools_digest, priority, acquired_by, acquired_until,
    lease_epoch, worker, created_at, updated_at, call_steps, reserved_tokens, reserved_cost_usd
from surefoot.tasks where id = %(id)s

-- name: given_plan
select spec #> '{task,plan}' as plan from surefoot.tasks where id = %(id)s

-- name: newest_task_id
select id from surefoot.tasks order by created_at desc, id desc limit 1

-- name: task_rows
select
    id, name, status, stopping, graph_version, workspace, concurrency, plan_version, total, progress,
    progress_at, limits, steps, tokens, cost_usd, seconds, failures, failure, milestones, priority,
    acquired_by, acquired_until, lease_epoch, worker, created_at, updated_at
from surefoot.tasks order by created_at desc, id desc

-- name: plan_row
select * from surefoot.plans
where task_id = %(id)s and (%(version)s::numeric is null or version = %(version)s)
order by version desc limit 1

-- name: plan_versions
select task_id, version, reason, at from surefoot.plans where task_id = %(id)s order by version

-- name: subtask_rows
select * from surefoot.subtasks where task_id = %(id)s order by id

-- name: subtask_row
select * from surefoot.subtasks where task_id = %(id)s and id = %(subtask)s

-- name: event_rows
select id, task_id, time, type, subtask, attempt, facts from surefoot.events
where task_id = %(id)s and id > %(after)s
    and (%(subtask)s::text is null or subtask = %(subtask)s)
    and (%(types)s::text[] is null or type = any(%(types)s))
order by id limit %(limit)s

-- name: artifact_rows
select * from surefoot.artifacts where task_id = %(id)s order by subtask, name, version

-- name: artifact_row
select * from surefoot.artifacts
where task_id = %(id)s and subtask = %(subtask)s and name = %(name)s
    and (version = %(version)s or (%(version)s::numeric is null and withdrawn_at is null))
order by version desc limit 1

-- name: question_rows
select * from surefoot.questions
where (%(id)s::text is null or task_id = %(id)s) and (open or not %(open_only)s)
order by asked_at, task_id, id

-- name: effect_rows
select * from surefoot.effects where task_id = %(id)s order by intent_at, key, scope

-- name: durations
select name, n, log_mean, log_m2 from surefoot.durations

-- name: counts
select state, count(*) as n from surefoot.subtasks where task_id = %(id)s group by state

-- name: inner_rows
-- What is inside a task's groups, and the children of its foreaches beside them; nothing in a task
-- without groups. The exists is asked once: it does not look at s.
select s.id, s.state, s.n from surefoot.subtasks s
where s.task_id = %(id)s and strpos(s.id, '/') > 0
    and exists (select 1 from surefoot.subtasks g where g.task_id = %(id)s and g.kind = 'group')

-- name: group_plans
-- The newest plan that a model made for each group.
select distinct on (subtask) subtask, facts -> 'plan' as plan from surefoot.events
where task_id = %(id)s and type = 'GroupPlanned'
order by subtask, id desc
