#pragma once

/* SipHash-1-3 with a key drawn once per process: spreads keys of maps; not for authentication. */

#include "base/str.h"

uint64_t sip_hash(struct str bytes);
