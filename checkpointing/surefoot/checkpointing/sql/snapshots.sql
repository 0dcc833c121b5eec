-- Snapshots of the workspace; they are written with an outbox (outbox.sql, snapshots).

-- name: before
-- The first memory of an attempt: it stands, whatever a later life has written since. Without one
-- of its own that of the last attempt before it that nobody accepted. A second row of the same
-- attempt says that it had failed and was being put back.
select
    b.attempt, b.manifest, b.files, b.bytes,
    exists (
        select 1 from surefoot.snapshots o
        where o.task_id = b.task_id and o.subtask = b.subtask and o.attempt = b.attempt
            and o.tier = 'before' and o.id > b.id
    ) as over
from surefoot.snapshots b
where b.task_id = %(task_id)s and b.subtask = %(subtask)s and b.attempt <= %(attempt)s
    and b.tier = 'before'
    and (b.attempt = %(attempt)s or not exists (
        select 1 from surefoot.snapshots f
        where f.task_id = b.task_id and f.subtask = b.subtask and f.tier = 'full'
            and f.attempt >= b.attempt
    ))
order by b.attempt desc, b.id
limit 1

-- name: newest
-- What is known of files: the newest of the whole workspace, and the newest parts.
(
    select manifest from surefoot.snapshots
    where task_id = %(task_id)s and tier = 'complete'
    order by id desc limit 1
) union all (
    select manifest from surefoot.snapshots
    where task_id = %(task_id)s and tier <> 'complete'
    order by id desc limit %(most)s
)
