#pragma once

/* The schema's rows, only for the config_*.c files. */

#include <stddef.h>

#include "base/format/toml.h"
#include "base/str.h"

struct config;

enum config_type {
    CONFIG_STR,
    CONFIG_INT,
    CONFIG_FLOAT, /* takes integers too */
    CONFIG_BOOL,
    CONFIG_CHOICE, /* an enum, in the order of `choices` */
    CONFIG_LIST,   /* of strings */
    CONFIG_FREE,   /* a table of anything, kept as it is */
    CONFIG_SECRET, /* from the environment, never from the file */
    CONFIG_TABLE,  /* a section */
    CONFIG_TABLES, /* an array of sections */
    CONFIG_MAP,    /* a table of sections under names of the user's choice */
};

/* What a string must look like. */
enum config_form {
    CONFIG_ANY,      /* one line, not empty */
    CONFIG_ADDRESS,  /* IP:PORT or unix:/PATH */
    CONFIG_PATH,     /* absolute, or below ~/ */
    CONFIG_URL,      /* http or https */
    CONFIG_DOCS,     /* the same, a directory, or "package" */
    CONFIG_HOST,     /* api.example.com, *.example.com, either with :PORT */
    CONFIG_OWN_HOST, /* box.example.com, may be with :PORT */
    CONFIG_VARIABLE,
    CONFIG_PACKAGE,
    CONFIG_VERSION,
    CONFIG_NAME,  /* lower-case letters, digits, - and _ */
    CONFIG_MODEL, /* PROVIDER/MODEL */
    CONFIG_FORM_COUNT
};

/* One key. `in` is its section: "" for the top, "providers.*" for each table below
 * [providers], "sandbox.dependencies[]" for each [[sandbox.dependencies]]. */
struct config_key {
    const char *in;
    const char *name;
    enum config_type type;
    size_t offset;        /* of the field in the section's struct */
    const char *fallback; /* the default as text; NULL for none */
    const char *note;     /* what to print as the default where it is computed */
    double min, max;      /* numbers: their range; strings and lists: the largest length */
    bool takes_none;      /* an integer: 0 and "none" mean no limit */
    const char *const *choices;
    enum config_form form;
    const char *env; /* this variable overrides the file */
    bool required;
    const char *opens; /* sections: the `in` of its members */
    size_t size;       /* CONFIG_TABLES, CONFIG_MAP: of one element's struct */
    const char *help;  /* one line, no full stop */
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Walks the keys of one section, in their order. */
#define CONFIG_KEYS_IN(key, section)                                                               \
    for (const struct config_key *key = config_next_key(NULL, (section)); key != NULL;             \
         key = config_next_key(key, (section)))
const struct config_key *config_next_key(const struct config_key *after, const char *section);

static inline bool config_is_section(const struct config_key *key)
{
    return key->type >= CONFIG_TABLE;
}
static inline void *config_field(void *section, const struct config_key *key)
{
    return (char *)section + key->offset;
}
static inline const void *config_field_const(const void *section, const struct config_key *key)
{
    return (const char *)section + key->offset;
}

/* What the form asks for, in words: "an address like 127.0.0.1:7070". */
const char *config_form_name(enum config_form form);
bool config_form_matches(enum config_form form, struct str s);

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENV };

/* One effective value and where it came from. */
struct config_setting {
    struct config_setting *next;
    const struct config_key *key;
    struct str section; /* as a header names it: "providers.groq" */
    struct str path;    /* with the key behind it */
    void *field;
    enum config_source source;
    struct toml_place place; /* in the file */
    struct str env;          /* the variable; of secrets also while it is not set */
    bool of_array;           /* the section is one of [[several]] */
    bool first;              /* of its section */
};

const char *config_source_name(enum config_source source);

/* Checks the tree against the schema and fills the configuration, defaults included. */
int config_read(struct config *config, const struct toml_table *root, struct err *err) MUST_USE;
/* "FILE:LINE:COLUMN: PATH: ..." and -1. */
int config_fail(const struct config *config, struct err *err, struct toml_place place,
                struct str path, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* After the values were taken: secrets of dependencies, and warnings of those that are not set. */
int config_join_secrets(struct config *config, struct err *err) MUST_USE;
/* NULL when no such setting exists. */
struct config_setting *config_setting(const struct config *config, const char *path);
