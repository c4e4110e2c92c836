-- A token of role agent may let `uses_max` new nodes in (0 = any number); `uses` is how many it did.
ALTER TABLE tokens ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN uses_max INTEGER NOT NULL DEFAULT 0;
