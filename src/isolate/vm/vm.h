#pragma once

/* The JavaScript engine, seen from our side: QuickJS-NG as translated WebAssembly.
 *
 * A vm is one instance with its reserved memory. All of the engine's state between calls is linear
 * memory plus one global, so an image (a copy of both) is the whole isolate: a template and a
 * pause are images.
 *
 * Calls that run engine code are made inside vm_try: a trap leaves it at once, past every frame
 * below it, so code under vm_try owns no memory in its frames; it uses the arena or buffers of its
 * caller. After a trap the vm must be loaded with an image before it runs again.
 *
 * Numbers and pointers that come out of the linear memory are the engine's word and nothing more:
 * each is checked before use. One thread, one vm at a time. */

#include "base/str.h"
#include "isolate/vm/rt.h"

struct arena;
struct buf;
struct err;
struct vm;
struct vm_image;

typedef uint64_t vm_value; /* a JSValue: owned by the caller of the vm_ function that returned it */

enum vm_kind {
    VM_UNDEFINED,
    VM_NULL,
    VM_BOOL,
    VM_NUMBER,
    VM_STRING,
    VM_SYMBOL,
    VM_BIGINT,
    VM_OBJECT,
    VM_EXCEPTION, /* the call threw: vm_take_exception has what */
};

enum vm_class {
    VM_CLASS_OBJECT,
    VM_CLASS_ARRAY,
    VM_CLASS_ERROR,
    VM_CLASS_DATE,
    VM_CLASS_REGEXP,
    VM_CLASS_MAP,
    VM_CLASS_SET,
    VM_CLASS_WEAK_MAP,
    VM_CLASS_WEAK_SET,
    VM_CLASS_WEAK_REF,
    VM_CLASS_PROMISE,
    VM_CLASS_PROXY,
    VM_CLASS_ARRAY_BUFFER,
    VM_CLASS_TYPED_ARRAY,
    VM_CLASS_DATA_VIEW,
    VM_CLASS_BOXED, /* new Number(1) and similar objects */
    VM_CLASS_ARGUMENTS,
    VM_CLASS_GENERATOR,
    VM_CLASS_MAP_ITERATOR,
    VM_CLASS_SET_ITERATOR,
    VM_CLASS_FUNCTION,
};

enum vm_promise { VM_PROMISE_PENDING, VM_PROMISE_FULFILLED, VM_PROMISE_REJECTED };

enum vm_eval { VM_EVAL_SCRIPT, VM_EVAL_ASYNC, VM_EVAL_MODULE };

/* What the engine may ask of us. Called with engine code below: must return. */
struct vm_hooks {
    /* host(op, ...args) in our bootstrap. Arguments are borrowed; the result is owned by the
     * engine. To throw, vm_throw and return its value. */
    vm_value (*call)(struct vm *vm, void *user, int op, const vm_value *args, size_t count);
    /* The name that `specifier` in `base` stands for, then its source; arena memory. False throws
     * an Error with `*ret` as its message. */
    bool (*resolve)(struct vm *vm, void *user, struct str base, struct str specifier,
                    struct str *ret);
    bool (*load)(struct vm *vm, void *user, struct str name, struct str *ret);
    /* A promise was rejected without a handler, or got one after all. */
    void (*rejected)(struct vm *vm, void *user, vm_value promise, vm_value reason, bool handled);
};

struct vm_limits {
    uint64_t memory_bytes; /* of the engine's heap */
    uint32_t stack_bytes;  /* at most VM_STACK_MAX */
};

enum {
    VM_STACK_MAX = 512 << 10,
    VM_MEMORY_MIN = 2 << 20,
    VM_MEMORY_MAX = 1 << 30,
    VM_KEY_LEN = 64
};

/* An instance that has run nothing: vm_boot or vm_load come next. */
int vm_new(struct vm **ret_vm, struct err *err) MUST_USE;
struct vm *vm_free(struct vm *vm);
DEFINE_FREEP(vm)
#define AUTO_VM AUTO(vm_freep)

/* Runs the engine's initialiser: an empty context. Milliseconds; done once for a template. */
int vm_boot(struct vm *vm, struct err *err) MUST_USE;

void vm_set_hooks(struct vm *vm, const struct vm_hooks *hooks, void *user);
/* Memory that lives as long as the run: module names and sources. */
void vm_set_arena(struct vm *vm, struct arena *arena);

/* Runs `work` under a trap frame. At `soft_ns` (monotonic) scripts end by an exception that they
 * cannot catch, at `hard_ns` by a trap; 0 for neither. */
enum rt_trap vm_try(struct vm *vm, int64_t soft_ns, int64_t hard_ns,
                    void (*work)(struct vm *vm, void *arg), void *arg);
/* The soft deadline has passed. */
bool vm_is_expired(struct vm *vm);
/* Then because it was interrupted. */
bool vm_is_interrupted(const struct vm *vm);
/* Bytes of the linear memory now. */
uint64_t vm_memory_size(const struct vm *vm);
/* The VM_KEY_LEN hex digits that name this engine. */
const char *vm_engine_key(void);

/* Images. Taken and loaded between calls only. */
int vm_save(struct vm *vm, struct vm_image **ret_image, struct err *err) MUST_USE;
/* In a forked child: what was drawn before is the parent's. */
void vm_forget_seeds(struct vm *vm);
/* Everything that was in the vm is wiped; new random numbers are drawn. */
int vm_load(struct vm *vm, const struct vm_image *image, const struct vm_limits *limits,
            struct err *err) MUST_USE;
struct vm_image *vm_image_free(struct vm_image *image);
DEFINE_FREEP(vm_image)
#define AUTO_VM_IMAGE AUTO(vm_image_freep)
/* The same as plain bytes, appended to `out`. `key` are VM_KEY_LEN hex digits. */
int vm_save_bytes(struct vm *vm, const char *key, struct buf *out, struct err *err) MUST_USE;
/* Refuses bytes with another key and checks every length; the image borrows from `bytes`. */
int vm_image_decode(struct str bytes, const char *key, struct vm_image **ret_image,
                    struct err *err) MUST_USE;

/* --- Values; all under vm_try --- */

/* The engine's own limits, kept in its memory. */
void vm_apply_limits(struct vm *vm, const struct vm_limits *limits);

enum vm_kind vm_kind_of(vm_value value);
enum vm_class vm_class_of(struct vm *vm, vm_value object);
vm_value vm_undefined(void);
vm_value vm_null(void);
vm_value vm_from_bool(bool flag);
vm_value vm_from_number(struct vm *vm, double number);
vm_value vm_from_str(struct vm *vm, struct str text);
vm_value vm_from_bytes(struct vm *vm, struct str bytes); /* a Uint8Array */
vm_value vm_new_object(struct vm *vm);
double vm_to_number(struct vm *vm, vm_value value); /* of a VM_NUMBER */
bool vm_to_bool(vm_value value);                    /* of a VM_BOOL */
vm_value vm_dup(struct vm *vm, vm_value value);
void vm_drop(struct vm *vm, vm_value value);

/* The text of a string, bigint or number, copied; lone surrogates as three bytes (not UTF-8). False
 * when the engine threw; nothing is pending then. */
bool vm_text(struct vm *vm, vm_value value, struct arena *arena, struct str *ret_text);
/* Of symbols: "Symbol(x)". */
bool vm_symbol_text(struct vm *vm, vm_value value, struct arena *arena, struct str *ret_text);
/* Bytes of an ArrayBuffer or typed array, borrowed until the engine runs. */
bool vm_bytes(struct vm *vm, vm_value value, struct str *ret_bytes);

/* A property by name or index; runs getters. */
vm_value vm_get(struct vm *vm, vm_value object, const char *name);
vm_value vm_get_index(struct vm *vm, vm_value object, uint32_t index);
/* Own enumerable keys, at most `max` of them; keys are atoms to be dropped. `*ret_total` counts
 * all. False when the engine threw (a proxy may). */
struct vm_keys {
    uint32_t list, count; /* in linear memory */
};
enum vm_keys_of { VM_KEYS_ENUMERABLE, VM_KEYS_WITH_SYMBOLS };
bool vm_keys_get(struct vm *vm, vm_value object, enum vm_keys_of which, struct vm_keys *ret_keys);
void vm_keys_drop(struct vm *vm, struct vm_keys keys);
/* The key itself (a string or symbol value), and its property. */
vm_value vm_key_at(struct vm *vm, struct vm_keys keys, uint32_t index);
vm_value vm_value_at(struct vm *vm, vm_value object, struct vm_keys keys, uint32_t index);
/* How a property is made, without running it. */
enum vm_slot { VM_SLOT_NONE, VM_SLOT_DATA, VM_SLOT_GETTER, VM_SLOT_SETTER, VM_SLOT_BOTH };
enum vm_slot vm_slot_at(struct vm *vm, vm_value object, struct vm_keys keys, uint32_t index,
                        vm_value *ret_value);
enum vm_slot vm_slot_index(struct vm *vm, vm_value object, uint32_t index, vm_value *ret_value);
enum vm_slot vm_slot_of(struct vm *vm, vm_value object, const char *name, vm_value *ret_value);

vm_value vm_prototype(struct vm *vm, vm_value object);
vm_value vm_proxy_target(struct vm *vm, vm_value proxy);
enum vm_promise vm_promise_state(struct vm *vm, vm_value promise);
vm_value vm_promise_result(struct vm *vm, vm_value promise);
bool vm_is_instance(struct vm *vm, vm_value value, vm_value constructor);

/* JS: call, evaluate, continue. */
vm_value vm_call(struct vm *vm, vm_value function, vm_value self, const vm_value *args,
                 size_t count);
/* `line` is the number of the first one. An async script gives a promise of {value}, a module one
 * of its namespace. */
vm_value vm_eval(struct vm *vm, struct str code, const char *file, int line, enum vm_eval how);
/* Bytecode of a script, made from our own sources at template time, and its evaluation. */
bool vm_compile(struct vm *vm, struct str code, const char *file, struct buf *out);
vm_value vm_eval_bytecode(struct vm *vm, struct str bytecode);
bool vm_is_module(struct vm *vm, struct str code);
/* Runs one job of the queue: 1, 0 if the queue is empty, -1 if it threw (the exception is
 * pending). */
int vm_run_job(struct vm *vm);
vm_value vm_parse_json(struct vm *vm, struct str text);

vm_value vm_take_exception(struct vm *vm);
vm_value vm_throw(struct vm *vm, vm_value error); /* takes `error`; gives VM_EXCEPTION */
vm_value vm_throw_error(struct vm *vm, const char *type, struct str message);

vm_value vm_global(struct vm *vm);
vm_value vm_host_function(struct vm *vm);
/* Forgets a top-level declaration, so that the name can be declared again. */
bool vm_undeclare(struct vm *vm, struct str name);

/* For the test of the memory boundary: makes translated code itself write one byte at `address`. */
void vm_poke(struct vm *vm, uint32_t address);
