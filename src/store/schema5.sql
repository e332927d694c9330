-- Version 5.

-- What a saved module is for, so that search finds it: a sentence, a JSON array of names, an
-- example, and who finds it (session, user). A module without source is a file of the volume.
ALTER TABLE code_modules ADD COLUMN description TEXT;
ALTER TABLE code_modules ADD COLUMN exports TEXT;
ALTER TABLE code_modules ADD COLUMN usage TEXT;
ALTER TABLE code_modules ADD COLUMN scope TEXT;
ALTER TABLE code_modules ADD COLUMN in_volume INTEGER NOT NULL DEFAULT 0;
