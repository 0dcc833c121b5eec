-- Snapshots of the workspace; they are written with an outbox (outbox.sql, snapshots).

-- name: before
-- The first memory of an attempt: it stands, whatever an interrupted life of it has written since.
-- A later row of the same attempt says that it had failed and was being put back.
select manifest, files, bytes, lead(true, 1, false) over (order by id) as over
from surefoot.snapshots
where task_id = %(task_id)s and subtask = %(subtask)s and attempt = %(attempt)s and tier = 'before'
order by id
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
