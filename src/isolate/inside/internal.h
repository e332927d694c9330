#pragma once

/* Only for isolate.c, host.c and images.c. */

#include "base/arena.h"
#include "base/embed.h"
#include "base/vec.h"
#include "isolate/inside/inspect.h"
#include "isolate/inside/isolate.h"
#include "isolate/vm/entries.h"
#include "isolate/vm/vm.h"

/* What boot.c made of the bootstrap at build time. */
extern const struct embed_file isolate_bootstrap[];

enum { REJECTIONS_MAX = 64, SPARES_MAX = 4, BRIDGES_PENDING_MAX = 64 };

struct isolate_engine {
    struct vm_image *template;
    struct entries entries;
    struct strip *strip;           /* TypeScript to JavaScript */
    struct vm *spares[SPARES_MAX]; /* instances that wait for their next isolate */
    size_t spare_count;
};

/* A part of the bootstrap, by name; empty if not found. */
struct str bootstrap_part(struct str name);
/* Names the engine and the bootstrap: images with another key are refused. */
const char *bootstrap_key(void);

struct isolate {
    struct isolate_engine *engine;
    struct vm *vm;
    struct isolate_limits limits;
    struct arena arena; /* texts of the moment; emptied when `busy` falls to zero */
    int busy;           /* our own code holds texts: calls from scripts must not empty the arena */
    struct buf code;    /* of the current run, without types; modules in turn */
    struct buf names;   /* that it declares */
    struct buf imports; /* the code with its imports replaced */
    const struct isolate_call *call;
    const struct isolate_host *host;
    struct isolate_result *result;
    uint64_t runs;
    int64_t born_ns;
    bool is_gone;
    uint32_t pending[BRIDGES_PENDING_MAX]; /* bridge calls under way */
    size_t pending_count;
    struct {
        vm_value promise, reason;
    } rejections[REJECTIONS_MAX];
    size_t rejection_count;
    struct answer *answers; /* to bridge calls, not given to the script yet */
};

struct answer {
    struct answer *next;
    uint32_t id;
    bool ok;
    struct str json;
};

extern const struct vm_hooks host_hooks;

struct inspect host_inspect(struct isolate *isolate);
struct vm_limits host_vm_limits(const struct isolate_limits *limits);
/* A new isolate without state: a vm and limits. */
int isolate_bare(struct isolate_engine *engine, const struct isolate_limits *limits,
                 struct isolate **ret_isolate, struct err *err) MUST_USE;
