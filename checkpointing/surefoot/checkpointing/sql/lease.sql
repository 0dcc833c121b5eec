-- Leases: who may write a task. Times are the server's, so that clocks of workers do not matter.

-- name: holder
select lease_epoch, acquired_by, acquired_until < now() as expired, worker,
    extract(epoch from now() - pg_postmaster_start_time())::float8 as server_up_s
from surefoot.tasks where id = %(task_id)s

-- name: acquire
-- Only if nothing has changed since it was looked at; of two that race one finds a newer epoch.
update surefoot.tasks set
    lease_epoch = lease_epoch + 1,
    acquired_by = %(worker_id)s,
    acquired_until = now() + make_interval(secs => %(seconds)s),
    worker = %(worker)s::jsonb
where id = %(task_id)s and lease_epoch = %(seen)s
    and (acquired_by is null or acquired_until < now() or %(dead)s)
returning lease_epoch

-- name: extend
-- Changes no key column, so it never waits for a writer's FOR KEY SHARE, nor the writer for it.
update surefoot.tasks t
set acquired_until = now() + make_interval(secs => %(seconds)s)
from unnest(%(ids)s::text[], %(epochs)s::bigint[]) as held (id, epoch)
where t.id = held.id and t.lease_epoch = held.epoch and t.acquired_by is not null
returning t.id

-- name: release
update surefoot.tasks set acquired_by = null, acquired_until = null, worker = null
where id = %(task_id)s and lease_epoch = %(epoch)s

-- name: give_back
-- Expired, not free: the tool processes it names must be gone before anybody works on. The epoch
-- moves, so that an extension on its way finds nothing to extend.
update surefoot.tasks set acquired_until = now() - interval '1 s', lease_epoch = lease_epoch + 1
where id = %(task_id)s and lease_epoch = %(epoch)s

-- name: set_children
update surefoot.tasks set worker = jsonb_set(worker, '{children}', %(children)s::jsonb)
where id = %(task_id)s and lease_epoch = %(epoch)s and worker is not null
returning 1

-- name: open_commands
select id, task_id, name, args, by from surefoot.commands
where task_id = any(%(ids)s) and applied_at is null
order by id
