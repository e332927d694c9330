/* What a hostile kernel says, collected and told to others: always JSON, always with a bound. */

#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/format/json_text.h"
#include "fuzz.h"
#include "runtime/output.h"

static void check(struct buf *text)
{
    AUTO_JSON struct json_t *value = NULL;
    struct err err = {0};
    json_hide_nul(text);
    int done = json_parse(buf_str(text), &value, &err);
    assert(done == 0);
}

static void tell(const struct run_output *output)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_begin_object(&out);
    run_output_put_members(output, &(struct loss){0}, &out);
    json_end_object(&out);
    check(&text);
    buf_clear(&text);
    run_output_put_short(output, &(struct loss){0}, &(struct json_out){.buf = &text});
    check(&text);
}

static void hear(struct interpreter *interpreter, struct run_output *output)
{
    struct interpreter_event event = {0};
    while (interpreter_next(interpreter, &event) && event.type != INTERPRETER_GONE) {
        run_output_take(output, &event);
        if (event.type != INTERPRETER_DISPLAY)
            continue;
        AUTO_BUF struct buf text = {0};
        run_value_put_json(event.parts, event.part_count, event.main,
                           &(struct json_out){.buf = &text});
        check(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_KERNEL struct interpreter *interpreter = NULL;
    AUTO_RUN_OUTPUT struct run_output output = {0};
    struct err err;
    int inner[3];
    /* More would not fit into the socket at once. */
    if (size > 32 << 10 || interpreter_open(&interpreter, inner, &err) < 0)
        return 0;
    if (interpreter_run(interpreter, STR("1"), STR(""), (struct str){0}, &err) < 0)
        abort();
    (void)send(inner[0], data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* The same bytes as what the code prints. */
    (void)!write(inner[1], data, size);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    hear(interpreter, &output);
    tell(&output);
    run_output_end(&output, RUN_DIED, "KernelDied", "it is gone");
    tell(&output);
    return 0;
}
