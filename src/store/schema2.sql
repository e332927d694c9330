-- Version 2. Commands that have ended are looked for here, not in memory: those of a sandbox in
-- the order of their making, and the oldest of a tenant with the length of their logs.

CREATE INDEX commands_of_sandbox ON commands (sandbox, ord);
CREATE INDEX commands_ended ON commands (tenant, ended_ms, log_end) WHERE state = 1;
