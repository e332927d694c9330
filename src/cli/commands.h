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
extern const struct cli_verb cmd_cp;
extern const struct cli_verb cmd_doctor;
extern const struct cli_verb cmd_exec;
extern const struct cli_verb cmd_fs_cat;
extern const struct cli_verb cmd_fs_glob;
extern const struct cli_verb cmd_fs_grep;
extern const struct cli_verb cmd_fs_ls;
extern const struct cli_verb cmd_fs_put;
extern const struct cli_verb cmd_fs_rm;
extern const struct cli_verb cmd_logs;
extern const struct cli_verb cmd_man;
extern const struct cli_verb cmd_policy_test;
extern const struct cli_verb cmd_run;
extern const struct cli_verb cmd_sandbox_create;
extern const struct cli_verb cmd_sandbox_exec;
extern const struct cli_verb cmd_sandbox_fork;
extern const struct cli_verb cmd_sandbox_get;
extern const struct cli_verb cmd_sandbox_hide;
extern const struct cli_verb cmd_sandbox_ls;
extern const struct cli_verb cmd_sandbox_pause;
extern const struct cli_verb cmd_sandbox_ports;
extern const struct cli_verb cmd_sandbox_resume;
extern const struct cli_verb cmd_sandbox_rm;
extern const struct cli_verb cmd_sandbox_stop;
extern const struct cli_verb cmd_sandbox_url;
extern const struct cli_verb cmd_serve;
extern const struct cli_verb cmd_session_create;
extern const struct cli_verb cmd_session_ls;
extern const struct cli_verb cmd_session_rm;
extern const struct cli_verb cmd_shell;
extern const struct cli_verb cmd_snapshot_create;
extern const struct cli_verb cmd_snapshot_ls;
extern const struct cli_verb cmd_snapshot_rm;
extern const struct cli_verb cmd_token_create;
extern const struct cli_verb cmd_token_ls;
extern const struct cli_verb cmd_token_rm;
extern const struct cli_verb cmd_top;
extern const struct cli_verb cmd_volume_create;
extern const struct cli_verb cmd_volume_ls;
extern const struct cli_verb cmd_volume_rm;
