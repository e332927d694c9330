#pragma once

/* The record of a document: numbers are 32 bits in the machine's order, texts have their length
 * before them. RECORD_READ, the converted text (empty unless it was HTML), the title, the number of
 * chunks, and of each its start, length, heading, terms of the heading and terms of the text.
 * RECORD_INVALID and RECORD_TOO_LARGE, the reason. */

#include "search/document.h"

enum { RECORD_READ, RECORD_INVALID, RECORD_TOO_LARGE };
