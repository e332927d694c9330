#pragma once

/* The keys that one sandbox uses and never sees: for each its value, where it may go, and the
 * placeholder that stands for it inside.
 *
 * A secret is bound to exact hosts and ports, over https, and to names of headers. As text, which
 * is what --secret takes:
 *
 *     NAME=env:VARIABLE@HOST[:PORT][,HOST[:PORT]...][#HEADER[,HEADER...]]
 *     NAME=file:/PATH@HOST...
 *
 * NAME is the variable that holds the placeholder inside. Without headers they are Authorization
 * and X-Api-Key; without a port it is 443. A value itself is never written there: command lines and
 * files of settings are read by others.
 *
 * Values are in locked memory that no core file contains and no child inherits, and are wiped at
 * the end. Nothing here prints one. */

#include "egress/keys/placeholder.h"
#include "egress/policy/host.h"

struct secret;
struct secrets;

enum {
    SECRETS_MAX = 32,
    SECRET_NAME_MAX = 64,
    SECRET_FROM_MAX = 4095,
    SECRET_PLACES_MAX = 16,
    SECRET_HEADERS_MAX = 8,
    SECRET_HEADER_LEN_MAX = 64,
    SECRET_VALUE_MIN = 8, /* a shorter one could be ordinary text of a response */
    SECRET_VALUE_MAX = 8 << 10,
};

struct secret_place {
    struct host host;
    uint16_t port;
};

/* Everything about a secret but its value. All-zero is a valid start for the setters below. */
struct secret_rule {
    char name[SECRET_NAME_MAX + 1];
    char from[SECRET_FROM_MAX + 1]; /* "env:VARIABLE" or "file:/PATH" */
    struct secret_place places[SECRET_PLACES_MAX];
    size_t place_count;
    char headers[SECRET_HEADERS_MAX][SECRET_HEADER_LEN_MAX + 1]; /* lower case */
    size_t header_count;
};

/* The text above. INVALID, with what is wrong; the message holds no part that could be a value. */
int secret_rule_parse(struct str text, struct secret_rule *ret_rule, struct err *err) MUST_USE;
/* Piece by piece, for the configuration. INVALID. */
int secret_rule_set_name(struct secret_rule *rule, struct str name, struct err *err) MUST_USE;
int secret_rule_set_from(struct secret_rule *rule, struct str from, struct err *err) MUST_USE;
int secret_rule_add_place(struct secret_rule *rule, struct str host_port, struct err *err) MUST_USE;
int secret_rule_add_header(struct secret_rule *rule, struct str name, struct err *err) MUST_USE;

/* One secret of a sandbox, for reading. */
struct secret_entry {
    struct secret_rule rule;
    char placeholder[PLACEHOLDER_SIZE];
    struct secret *value; /* NULL: it has none; see secrets_add_missing */
};

struct secrets *secrets_new(void);
struct secrets *secrets_free(struct secrets *secrets);
DEFINE_FREEP(secrets)
#define AUTO_SECRETS AUTO(secrets_freep)

/* Adds one with a new placeholder. The value is one line of printable ASCII; a line end behind it
 * is dropped. INVALID (also for a name that already exists), LIMIT. */
int secrets_add(struct secrets *secrets, const struct secret_rule *rule, struct str value,
                struct err *err) MUST_USE;
/* A secret whose value the operator did not set. It has a placeholder as any other, and a request
 * that carries it to one of its hosts is refused with the secret's name. */
int secrets_add_missing(struct secrets *secrets, const struct secret_rule *rule,
                        struct err *err) MUST_USE;
/* The same with the value from the source that the rule names: a variable is wiped and removed from
 * the environment once read, so start no process before. NOT_FOUND when it is not set or the file
 * does not exist. */
int secrets_load(struct secrets *secrets, const struct secret_rule *rule, struct err *err) MUST_USE;
/* Each entry gets the placeholder that the one of its name has in `before` (NULL: none has), so
 * that programs which hold it keep working when a value is replaced. */
void secrets_keep_placeholders(struct secrets *secrets, const struct secrets *before);

/* All of these take NULL for no secrets. */
size_t secrets_count(const struct secrets *secrets);
const struct secret_entry *secrets_at(const struct secrets *secrets, size_t index);
/* A line "NAME=PLACEHOLDER" for each: variables of the code that uses them. */
void secrets_put_env(const struct secrets *secrets, struct buf *out);
/* Whether the entry may go to https://host:port; whether any of them may, so that the connection
 * must be opened; whether the entry names this header. */
bool secret_goes_to(const struct secret_entry *entry, const struct host *host, uint16_t port);
bool secrets_go_to(const struct secrets *secrets, const struct host *host, uint16_t port);
bool secret_names_header(const struct secret_entry *entry, struct str name);

/* For the process that finally holds them: everything as bytes in one locked buffer, to be written
 * only to that process. TOO_LARGE past SECRET_MAX. */
int secrets_pack(const struct secrets *secrets, struct secret **ret_packed,
                 struct err *err) MUST_USE;
/* INVALID for bytes that secrets_pack did not make. Wipe `packed` afterwards. */
int secrets_unpack(struct str packed, struct secrets **ret_secrets, struct err *err) MUST_USE;
