#pragma once

/* The handlers that the table of verbs names, one cmd_*.c each. */

struct cli_call;
struct err;

int cmd_completion_bash(const struct cli_call *call, struct err *err);
int cmd_config_docs(const struct cli_call *call, struct err *err);
int cmd_config_schema(const struct cli_call *call, struct err *err);
int cmd_config_show(const struct cli_call *call, struct err *err);
int cmd_exec(const struct cli_call *call, struct err *err);
int cmd_doctor(const struct cli_call *call, struct err *err);
int cmd_man(const struct cli_call *call, struct err *err);
int cmd_serve(const struct cli_call *call, struct err *err);
