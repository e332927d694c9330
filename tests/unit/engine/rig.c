#include "rig.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tiers/tiers.h"

enum { WAIT_MS = 300000 };

void rig_reopen(struct rig *rig)
{
    struct err err = {0};
    struct engine_options options = {
        .config = rig->config, .data_dir = rig->dir, .program = SANDGLASS, .tiers = tiers_all};
    CHECK_OK(engine_open(rig->loop, &options, &rig->engine, &err));
}

void rig_open(struct rig *rig, const char *toml)
{
    static int count;
    char path[8192];
    struct err err = {0};
    *rig = (struct rig){.caller = {.tenant = STR("one")}};
    (void)snprintf(rig->dir, sizeof rig->dir, "%s/engine%d", test_tmpdir(), count++);
    CHECK_OK(fd_make_dirs(rig->dir, 0700, &err));
    test_write(rig->dir, "config.toml", toml != NULL ? toml : "[sandbox]\nprovider = \"memory\"\n");
    (void)snprintf(path, sizeof path, "%s/config.toml", rig->dir);
    CHECK_OK(config_load(path, &rig->config, &err));
    rig->config->jail.zygote_at_start = false; /* nobody waits for it here */
    CHECK_OK(loop_open(&rig->loop, &err));
    rig_reopen(rig);
}

void rig_open_jails(struct rig *rig, const char *toml)
{
    if (geteuid() != 0)
        SKIP("jails with every limit need root here");
    rig_open(rig, toml);
}

void rig_free(struct rig *rig)
{
    rig->engine = engine_free(rig->engine);
}

void rig_close(struct rig *rig)
{
    rig->awaited++;
    engine_stop(rig->engine, rig_on_plain, rig);
    CHECK_INT(rig_wait(rig), 0);
    rig_free(rig);
}

void rig_done(struct rig *rig)
{
    if (rig->engine != NULL)
        rig_close(rig);
    rig->loop = loop_free(rig->loop);
    rig->config = config_free(rig->config);
}

int rig_wait(struct rig *rig)
{
    int64_t until = clock_now_ms() + WAIT_MS;
    while (rig->answers < rig->awaited) {
        (void)loop_step(rig->loop);
        CHECK(clock_now_ms() < until);
    }
    return rig->failed ? -1 : 0;
}

void rig_run_ms(struct rig *rig, int64_t ms)
{
    int64_t until = clock_now_ms() + ms;
    while (clock_now_ms() < until)
        (void)loop_step(rig->loop);
}

void rig_on_plain(void *ctx, const struct err *why)
{
    struct rig *rig = ctx;
    rig->answers++;
    rig->failed = why != NULL;
    if (why != NULL)
        rig->why = *why;
}

void rig_on_sandbox(void *ctx, const struct sandbox_info *sandbox, const struct err *why)
{
    struct rig *rig = ctx;
    CHECK((sandbox == NULL) == (why != NULL));
    if (sandbox != NULL) {
        rig->sandbox = *sandbox;
        (void)snprintf(rig->id, sizeof rig->id, "%.*s", STR_ARG(sandbox->id));
    }
    rig_on_plain(rig, why);
}

void rig_on_file(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct rig *rig = ctx;
    CHECK((answer == NULL) == (why != NULL));
    if (answer != NULL) {
        (void)snprintf(rig->texts[0], sizeof rig->texts[0], "%.*s", STR_ARG(answer->bytes));
        rig->count = answer->entry_count;
        for (size_t i = 0; i < answer->entry_count && i + 1 < countof(rig->texts); i++)
            (void)snprintf(rig->texts[i + 1], sizeof rig->texts[0], "%.*s",
                           STR_ARG(answer->entries[i].path));
    }
    rig_on_plain(rig, why);
}

static void keep(char out[64], struct str id)
{
    (void)snprintf(out, 64, "%.*s", STR_ARG(id));
}

void rig_on_many(void *ctx, const struct sandbox_info *sandboxes, size_t count,
                 const struct err *why)
{
    struct rig *rig = ctx;
    CHECK(count <= countof(rig->many));
    rig->many_count = count;
    for (size_t i = 0; i < count; i++)
        keep(rig->many[i], sandboxes[i].id);
    rig_on_plain(rig, why);
}

void rig_on_checkpoint(void *ctx, const struct sandbox_checkpoint *checkpoint,
                       const struct err *why)
{
    struct rig *rig = ctx;
    if (checkpoint != NULL)
        keep(rig->checkpoint, checkpoint->id);
    rig_on_plain(rig, why);
}

void rig_on_snapshot(void *ctx, const struct snapshot_info *snapshot, const struct err *why)
{
    struct rig *rig = ctx;
    if (snapshot != NULL)
        keep(rig->snapshot, snapshot->id);
    rig_on_plain(rig, why);
}

void rig_on_session(void *ctx, const struct session_info *session, const struct err *why)
{
    struct rig *rig = ctx;
    if (session != NULL)
        keep(rig->session, session->id);
    rig_on_plain(rig, why);
}

void rig_on_volume(void *ctx, const struct volume_info *volume, const struct err *why)
{
    struct rig *rig = ctx;
    if (volume != NULL)
        keep(rig->volume, volume->id);
    rig_on_plain(rig, why);
}

void rig_on_token(void *ctx, const struct token_info *token, const char *secret,
                  const struct err *why)
{
    struct rig *rig = ctx;
    if (token != NULL) {
        keep(rig->token, token->id);
        (void)snprintf(rig->secret, sizeof rig->secret, "%s", secret);
    }
    rig_on_plain(rig, why);
}

void rig_on_command(void *ctx, const struct command_info *command, const struct err *why)
{
    struct rig *rig = ctx;
    if (command != NULL) {
        rig->command = *command;
        keep(rig->command_id, command->id);
        keep(rig->command_shell, command->shell);
    }
    rig_on_plain(rig, why);
}

int rig_create(struct rig *rig, const struct sandbox_spec *spec)
{
    return RIG_CALL(rig, engine_sandbox_create, spec, rig_on_sandbox);
}

int rig_write(struct rig *rig, const char *sandbox, const char *path, const char *text)
{
    struct file_place place = {.sandbox = str_of(sandbox)};
    struct file_request request = {
        .op = FILE_WRITE, .path = str_of(path), .bytes = str_of(text), .make_parents = true};
    return RIG_CALL(rig, engine_file, &place, &request, rig_on_file);
}

int rig_read(struct rig *rig, const char *sandbox, const char *path)
{
    struct file_place place = {.sandbox = str_of(sandbox)};
    struct file_request request = {.op = FILE_READ, .path = str_of(path)};
    return RIG_CALL(rig, engine_file, &place, &request, rig_on_file);
}

enum sandbox_state rig_state(struct rig *rig, const char *sandbox)
{
    struct sandbox_info info = {0};
    struct err err = {0};
    CHECK_OK(engine_sandbox_get(rig->engine, &rig->caller, str_of(sandbox), &info, &err));
    return info.state;
}

int rig_begin(struct rig *rig, const char *sandbox, const char *shell)
{
    struct command_spec spec = {.sandbox = str_of(sandbox), .shell = str_of(shell)};
    return RIG_CALL(rig, engine_command_start, &spec, rig_on_command);
}

int rig_await(struct rig *rig, const char *command, int64_t timeout_ms)
{
    struct command_waiter *waiter = NULL;
    struct err err = {0};
    char id[64];
    keep(id, str_of(command)); /* it may be the rig's own */
    /* From the store, where it is in memory no more. */
    CHECK_INT(RIG_CALL(rig, engine_command_get, str_of(id), rig_on_command), 0);
    rig->awaited++;
    CHECK_OK(engine_command_wait(rig->engine, &rig->caller, str_of(id), timeout_ms, rig_on_command,
                                 rig, &waiter, &err));
    int result = rig_wait(rig);
    (void)command_waiter_free(waiter);
    return result;
}
