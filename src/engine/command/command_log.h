#pragma once

/* Readers of logs from inside, for command_log.c and command_reader.c. */

#include "base/hold.h"
#include "engine/command/command_internal.h"

/* How far a reader has come in one stream, or what is known of a piece's start. */
struct log_place {
    bool is_known;
    uint64_t bytes, lines;
};

/* A reader is behind (it reads from the store, some at a time) or it has caught up (it gets output
 * as it comes). A command that is forgotten leaves its readers with `command` NULL. */
struct command_log_reader {
    struct hold hold; /* by each call-back under way, and by a read of the store */
    struct command_log_reader *next;
    struct engine *engine;
    struct command *command;
    struct log_calls calls;
    void *ctx;
    enum log_mode mode;
    uint64_t offset, end; /* `end`: where it stops, unless it follows */
    uint64_t asked;       /* the log's end when the store was asked */
    struct log_place seen[3];
    int64_t paused_at; /* boot clock; while it is paused */
    bool is_paused, is_reading, is_ended;
    bool was_paused; /* the pause of its sandbox was reported to it */
};

/* A call-back of it is under way. */
static inline bool command_log_reader_is_told(const struct command_log_reader *reader)
{
    return reader->hold.count > (reader->is_reading ? 1U : 0U);
}

/* command_reader.c. Hands a piece to a reader; false when the reader was freed by that. */
bool command_log_reader_tell(struct command_log_reader *reader, const struct store_log *log);
/* Continues to read, or ends; with `always` also when there is nothing to read. */
void command_log_reader_go_on(struct command_log_reader *reader, bool always);
void command_log_reader_end(struct command_log_reader *reader, const struct err *why);
/* No longer one of its command's. */
void command_log_reader_unlink(struct command_log_reader *reader);

/* command_log.c. Stops or resumes the command's output as its store and its readers need it. */
void command_log_pace(struct command *command);
