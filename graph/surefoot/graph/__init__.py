"""The ground floor and the roof. Kept empty, or importing the floor would pull in the roof."""
