#pragma once

/* Automatic checkpoints from inside, for turn.c, turn_undo.c and the rows that keep them. */

#include "base/crypto/hash.h"
#include "base/id.h"
#include "base/vec.h"
#include "engine/sandbox/turn.h"
#include "files/mark.h"

struct sandbox;
struct want;
struct json_out;
struct store_hashes;

#define TURN_UNDO "undo"

struct turn {
    char id[ID_SIZE];
    char blob[HASH_HEX_SIZE];
    char before[32];
    int64_t created_ms, size_bytes;
    struct files_mark mark;
};

struct history {
    VEC(struct turn) turns; /* oldest first */
    bool has_mark;          /* `mark` is what /workspace was when it was last looked at */
    struct files_mark mark;
    size_t coming; /* one that is being made, and replaces none: it counts already */
    char note[240];
    int64_t note_ms;
};

void history_done(struct history *history);
void history_copy(struct history *to, const struct history *from);
void history_put_json(const struct history *history, struct json_out *out);
void history_read_json(struct history *history, struct str text);
int64_t history_bytes(const struct history *history);
size_t history_count(const struct history *history);
/* Its place among the turns, or their number. */
size_t history_find(const struct history *history, struct str id);
void history_keep_blobs(const struct history *history, struct store_hashes *kept);
bool history_mark_is_same(const struct files_mark *a, const struct files_mark *b);

/* True: `want` is called when the checkpoint was made, or could not be. False: none is needed. */
bool turn_before(struct sandbox *sandbox, struct want *want);
