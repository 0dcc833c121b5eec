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
