#pragma once

/* The verbs that the table in verbs.c lists, each defined at the end of its cmd_*.c. */

struct cli_verb;

extern const struct cli_verb cmd_api_docs;
extern const struct cli_verb cmd_api_schema;
extern const struct cli_verb cmd_bridges;
extern const struct cli_verb cmd_bridges_call;
extern const struct cli_verb cmd_bridges_docs;
extern const struct cli_verb cmd_completion_bash;
extern const struct cli_verb cmd_config_docs;
extern const struct cli_verb cmd_config_schema;
extern const struct cli_verb cmd_config_show;
extern const struct cli_verb cmd_doctor;
extern const struct cli_verb cmd_exec;
extern const struct cli_verb cmd_man;
extern const struct cli_verb cmd_policy_test;
extern const struct cli_verb cmd_run;
extern const struct cli_verb cmd_serve;
