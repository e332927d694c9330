/* Packets to init, as it reads them. */

#include "fuzz.h"

#include "base/err.h"
#include "jail/inside/init_command.h"
#include "jail/wire/file_wire.h"
#include "jail/wire/init.h"

static void check_question(const struct jail_file *question, size_t size)
{
    const struct str texts[] = {question->path, question->to, question->bytes, question->with};
    for (size_t i = 0; i < countof(texts); i++)
        assert(texts[i].len <= size);
    assert(question->mode <= 07777 && question->place <= FILES_TAR_MERGE);
    /* What was read is what would be written. */
    AUTO_BUF struct buf again = buf_with_limit(size + 256);
    file_put_question(&again, question);
    struct wire_in in = {.rest = buf_str(&again)};
    struct jail_file same;
    bool is_read = file_get_question(&in, question->verb, &same);
    assert(is_read && str_eq(same.path, question->path) && str_eq(same.with, question->with));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct init_command command;
    struct wire_head head;
    struct jail_file question;
    if (size > WIRE_MAX)
        return 0;
    struct wire_in in = wire_open(str_n((const char *)data, size), &head);
    if (head.type == INIT_START) {
        if (init_command_read(&command, &in, (int[]){0, 1, 2}))
            assert(command.argv[0] != NULL && command.cwd != NULL);
    } else if (file_get_question(&in, (enum jail_file_verb)head.type, &question)) {
        check_question(&question, size);
    }
    return 0;
}
