#pragma once

/* Idle interpreters during a seal of their jail's layer (layers/seal.c). */

struct place;

/* Has the interpreters of a place leave their working directories, so that the root of its jail can
 * be exchanged; they run no code until tier_go_back. `done` gets how many there are, or -1 when one
 * is not idle or refuses; before this returns, or later. One at a time. */
typedef void quiesced_done(void *ctx, int count);
void tier_quiesce(struct place *place, quiesced_done *done, void *ctx);
/* They go back and run code again. Does nothing when they were not asked. A run that waited may
 * fail, so the place may have ended when this returns. */
void tier_go_back(struct place *place);
/* The place or its jail is ending. */
void tier_quiesce_end(struct place *place);
