-- Task rows, commands, durations: what the session and the doors need besides the journal.

-- name: create
insert into surefoot.tasks (
    id, name, status, spec, spec_digest, graph_version, workspace, concurrency, limits,
    inputs_manifest, tools_digest, priority
) values (
    %(id)s, %(name)s, %(status)s, %(spec)s::jsonb, %(spec_digest)s, %(graph_version)s, %(workspace)s,
    %(concurrency)s, %(limits)s::jsonb, %(inputs_manifest)s::jsonb, %(tools_digest)s::jsonb, %(priority)s
)
on conflict (id) do nothing
returning *

-- name: raise_limits
update surefoot.tasks
set spec = jsonb_set(spec, '{raised}', coalesce(spec -> 'raised', '{}') || %(raised)s::jsonb)
where id = %(task_id)s and lease_epoch = %(epoch)s
returning 1 as raised

-- name: record_command
insert into surefoot.commands (task_id, name, args, by)
select id, %(name)s, %(args)s::jsonb, %(by)s from surefoot.tasks where id = %(task_id)s
returning id

-- name: command_outcome
select id, task_id, name, args, by, at, applied_at, outcome from surefoot.commands where id = %(id)s

-- name: apply_command
with fence as materialized (
    select id from surefoot.tasks
    where id = %(task_id)s and lease_epoch = %(epoch)s
    for key share
), applied as (
    update surefoot.commands c set applied_at = now(), outcome = %(outcome)s::jsonb
    from fence
    where c.id = %(id)s and c.task_id = fence.id and c.applied_at is null
    returning c.id
)
select (select count(*) from applied) as applied from fence

-- name: withdraw_command
update surefoot.commands set applied_at = now(), outcome = %(outcome)s::jsonb
where id = %(id)s and applied_at is null
returning 1

-- name: withdraw_old_pauses
update surefoot.commands c set applied_at = now()
from surefoot.tasks t
where c.task_id = %(task_id)s and c.name = 'pause' and c.applied_at is null
    and t.id = c.task_id and (t.acquired_by is null or t.acquired_until < now())

-- name: tell_stopping
-- Not where it has stopped already: this may come after the row that says so.
update surefoot.tasks set stopping = true, updated_at = now()
where id = %(task_id)s and lease_epoch = %(epoch)s and status = 'running'

-- name: bump_durations
-- Joins two samples by Chan's formula, so that the order in which tasks end does not matter.
insert into surefoot.durations as d (name, n, log_mean, log_m2)
select name, n, log_mean, log_m2 from jsonb_to_recordset(%(samples)s::jsonb)
    as s (name text, n bigint, log_mean double precision, log_m2 double precision)
order by name
on conflict (name) do update set
    n = d.n + excluded.n,
    log_mean = d.log_mean + (excluded.log_mean - d.log_mean) * excluded.n / (d.n + excluded.n),
    log_m2 = d.log_m2 + excluded.log_m2
        + (excluded.log_mean - d.log_mean) ^ 2 * d.n * excluded.n / (d.n + excluded.n),
    updated_at = now()
