/* Reading a policy. The parts of an entry go through the same functions whether they came as text
 * or as JSON. */

#include "egress/policy/policy.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/format/json.h"

struct reader {
    struct policy *policy;
    enum policy_author author;
    bool has_mode;
    struct err *err;
};

static int fail_at(struct reader *reader, struct str part, const char *why)
{
    char shown[HOST_SHOWN_SIZE];
    host_show(part, shown);
    return err_set(reader->err, ERR_INVALID, "policy: '%s': %s", shown, why);
}

static int operator_only(struct reader *reader, struct str part)
{
    if (reader->author == POLICY_BY_OPERATOR)
        return 0;
    char shown[HOST_SHOWN_SIZE];
    host_show(part, shown);
    return err_set(reader->err, ERR_FORBIDDEN,
                   "policy: '%s': allowed only in the operator's configuration", shown);
}

/* The parts of one rule. */

static int set_below(struct reader *reader, struct policy_rule *rule, struct str text,
                     const struct host *host)
{
    if (host_is_ip(host))
        return fail_at(reader, text, "'*.' can only precede a name, not an address");
    bool is_wide = str_find_char(host_str(host), '.') == host_str(host).len;
    if (is_wide && operator_only(reader, text) < 0)
        return -1;
    rule->is_below = true;
    return 0;
}

static int set_host(struct reader *reader, struct policy_rule *rule, struct str text)
{
    if (str_eq(text, STR("*")))
        return operator_only(reader, text);
    struct host host;
    bool is_below = str_starts(text, STR("*."));
    if (host_parse(is_below ? str_slice(text, 2, text.len) : text, &host, reader->err) < 0)
        return err_wrap(reader->err, "policy");
    if (is_below && set_below(reader, rule, text, &host) < 0)
        return -1;
    rule->host = arena_dup(&reader->policy->arena, host_str(&host));
    return 0;
}

static int parse_port(struct reader *reader, struct str text, uint16_t *ret_port)
{
    int64_t port;
    if ((text.len > 0 && text.ptr[0] == '0') || !str_to_i64(text, 1, 65535, &port))
        return fail_at(reader, text, "a port must be a number from 1 to 65535");
    *ret_port = (uint16_t)port;
    return 0;
}

static int add_port(struct reader *reader, struct policy_rule *rule, struct str text)
{
    if (rule->port_count == POLICY_PORTS_MAX)
        return fail_at(reader, text, "more than 8 ports in one entry");
    return parse_port(reader, text, &rule->ports[rule->port_count++]);
}

static int add_method(struct reader *reader, struct policy_rule *rule, struct str text)
{
    bool good = text.len > 0 && text.len <= 20;
    for (size_t i = 0; i < text.len && good; i++)
        good = text.ptr[i] >= 'A' && text.ptr[i] <= 'Z';
    if (!good)
        return fail_at(reader, text, "a method is a word in capitals, like GET");
    if (rule->method_count == POLICY_METHODS_MAX)
        return fail_at(reader, text, "more than 8 methods in one entry");
    rule->methods[rule->method_count++] = arena_dup(&reader->policy->arena, text);
    return 0;
}

static int add_path(struct reader *reader, struct policy_rule *rule, struct str text)
{
    if (text.len == 0 || text.ptr[0] != '/' || text.len > POLICY_PATH_LEN_MAX)
        return fail_at(reader, text, "a path must begin with '/' and have at most 256 bytes");
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] <= 0x20 || text.ptr[i] > 0x7e || strchr(",;?#\\%", text.ptr[i]) != NULL)
            return fail_at(reader, text,
                           "a path cannot contain blanks, percent signs or any of , ; ? # \\");
    if (str_find(text, STR("/.")) < text.len || str_find(text, STR("//")) < text.len)
        return fail_at(reader, text,
                       "a path cannot contain '//' or a segment that begins with '.'");
    if (rule->path_count == POLICY_PATHS_MAX)
        return fail_at(reader, text, "more than 16 paths in one entry");
    rule->paths[rule->path_count++] = arena_dup(&reader->policy->arena, text);
    return 0;
}

/* "api.example.com:443|8443": the colon outside of an IPv6 address's brackets. */
static size_t port_colon(struct str text)
{
    size_t from = text.len > 0 && text.ptr[0] == '[' ? str_find_char(text, ']') : 0;
    return from + str_find_char(str_slice(text, from, text.len), ':');
}

/* "https://api.example.com/v1": what was copied from a browser. */
static int refuse_url(struct reader *reader, struct str word)
{
    char shown[HOST_SHOWN_SIZE], host[HOST_SHOWN_SIZE];
    struct str rest = str_slice(word, str_find(word, STR("://")) + 3, word.len);
    host_show(word, shown);
    host_show(str_slice(rest, 0, str_find_char(rest, '/')), host);
    return err_set(reader->err, ERR_INVALID, "policy: '%s' is a URL; write only its host: %s",
                   shown, host);
}

static int read_host_word(struct reader *reader, struct policy_rule *rule, struct str word)
{
    size_t colon = port_colon(word);
    if (str_find(word, STR("://")) < word.len)
        return refuse_url(reader, word);
    if (set_host(reader, rule, str_slice(word, 0, colon)) < 0)
        return -1;
    if (colon == word.len)
        return 0;
    struct str rest = str_slice(word, colon + 1, word.len), port;
    while (str_split(&rest, '|', &port))
        if (add_port(reader, rule, port) < 0)
            return -1;
    return 0;
}

static int read_limit_word(struct reader *reader, struct policy_rule *rule, struct str word)
{
    if (word.ptr[0] == '/')
        return add_path(reader, rule, word);
    if (rule->path_count > 0 || rule->method_count > 0)
        return fail_at(reader, word, "write the methods after the host, then the paths");
    struct str method;
    while (str_split(&word, '|', &method))
        if (add_method(reader, rule, method) < 0)
            return -1;
    return 0;
}

static int read_rule(struct reader *reader, struct policy_rule *rule, struct str entry)
{
    struct str rest = str_trim(entry), word;
    bool is_first = true;
    if (rest.len == 0)
        return fail_at(reader, entry, "an entry is empty");
    while (str_split(&rest, ' ', &word)) {
        if (word.len == 0)
            continue;
        int result =
            is_first ? read_host_word(reader, rule, word) : read_limit_word(reader, rule, word);
        if (result < 0)
            return -1;
        is_first = false;
    }
    return 0;
}

/* "db.internal=10.0.0.5:5432" */
static int read_private(struct reader *reader, struct policy_private *entry, struct str text)
{
    text = str_trim(text);
    size_t equals = str_find_char(text, '=');
    struct str to = str_slice(text, equals + 1, text.len);
    size_t colon = port_colon(to);
    struct host at;
    if (equals == text.len || colon == to.len)
        return fail_at(reader, text, "a private entry is HOST=ADDRESS:PORT");
    if (host_parse(str_slice(text, 0, equals), &entry->host, reader->err) < 0 ||
        host_parse(str_slice(to, 0, colon), &at, reader->err) < 0)
        return err_wrap(reader->err, "policy");
    if (!host_is_ip(&at))
        return fail_at(reader, text, "a private entry must lead to an address, not to a name");
    entry->ip = at.ip;
    return parse_port(reader, str_slice(to, colon + 1, to.len), &entry->port);
}

/* Places in the three lists. */

static int new_rule(struct reader *reader, bool is_deny, struct policy_rule **ret_rule)
{
    struct policy *policy = reader->policy;
    size_t count = is_deny ? policy->deny.len : policy->allow.len;
    if (count == POLICY_RULES_MAX)
        return err_set(reader->err, ERR_TOO_LARGE, "policy: more than %d entries of one kind",
                       POLICY_RULES_MAX);
    *ret_rule = is_deny ? vec_push(&policy->deny) : vec_push(&policy->allow);
    return 0;
}

static int new_private(struct reader *reader, struct policy_private **ret_entry)
{
    if (operator_only(reader, STR("private")) < 0)
        return -1;
    if (reader->policy->private.len == POLICY_RULES_MAX)
        return err_set(reader->err, ERR_TOO_LARGE, "policy: more than %d private entries",
                       POLICY_RULES_MAX);
    *ret_entry = vec_push(&reader->policy->private);
    return 0;
}

static int check_rule(struct reader *reader, const struct policy_rule *rule, bool is_deny)
{
    if (is_deny && rule->method_count + rule->path_count > 0)
        return fail_at(reader, rule->host, "a deny entry cannot have methods or paths");
    return 0;
}

static int set_mode(struct reader *reader, enum policy_mode mode, struct str word)
{
    if (reader->has_mode)
        return fail_at(reader, word, "the policy's mode is given twice");
    reader->has_mode = true;
    reader->policy->mode = mode;
    return 0;
}

/* Text. */

static int read_entries(struct reader *reader, struct str keyword, struct str entries)
{
    bool is_deny = str_eq(keyword, STR("deny"));
    struct str entry;
    while (str_split(&entries, ',', &entry)) {
        struct policy_rule *rule;
        struct policy_private *private;
        if (str_eq(keyword, STR("private"))) {
            if (new_private(reader, &private) < 0 || read_private(reader, private, entry) < 0)
                return -1;
        } else if (new_rule(reader, is_deny, &rule) < 0 || read_rule(reader, rule, entry) < 0 ||
                   check_rule(reader, rule, is_deny) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_statement(struct reader *reader, struct str statement)
{
    size_t blank = str_find_char(statement, ' ');
    struct str keyword = str_slice(statement, 0, blank);
    struct str entries = str_trim(str_slice(statement, blank, statement.len));
    bool is_public = str_eq(keyword, STR("public"));
    if (is_public || str_eq(keyword, STR("none"))) {
        if (entries.len > 0)
            return fail_at(reader, statement, "only ';' may follow this word");
        return set_mode(reader, is_public ? POLICY_PUBLIC : POLICY_NONE, keyword);
    }
    if (!str_eq(keyword, STR("allow")) && !str_eq(keyword, STR("deny")) &&
        !str_eq(keyword, STR("private")))
        return fail_at(reader, keyword,
                       "a statement must begin with none, public, allow, deny or private");
    if (entries.len == 0)
        return fail_at(reader, keyword, "a host must follow");
    return read_entries(reader, keyword, entries);
}

static int read_text(struct reader *reader, struct str text)
{
    struct str statement;
    for (size_t i = 0; i < text.len; i++)
        if (((unsigned char)text.ptr[i] < 0x20 && text.ptr[i] != '\n') || text.ptr[i] == 0x7f)
            return fail_at(reader, text, "contains a control character");
    while (str_split(&text, ';', &statement)) {
        statement = str_trim(statement);
        if (statement.len > 0 && read_statement(reader, statement) < 0)
            return -1;
    }
    return 0;
}

/* JSON. */

static int each_text(struct reader *reader, struct policy_rule *rule, const struct json_t *list,
                     const char *key, int (*add)(struct reader *, struct policy_rule *, struct str))
{
    for (size_t i = 0; i < json_len(list); i++) {
        char number[24];
        struct str text;
        int64_t n;
        const struct json_t *item = json_at(list, i);
        if (json_to_i64(item, &n)) {
            (void)snprintf(number, sizeof number, "%lld", (long long)n);
            text = str_of(number);
        } else if (!json_to_str(item, &text)) {
            return fail_at(reader, str_of(key), "must contain only strings and numbers");
        }
        if (add(reader, rule, text) < 0)
            return -1;
    }
    return 0;
}

static int read_rule_member(struct reader *reader, struct policy_rule *rule, struct str key,
                            const struct json_t *value)
{
    struct str text;
    if (str_eq(key, STR("host")))
        return json_to_str(value, &text) ? set_host(reader, rule, text)
                                         : fail_at(reader, key, "must be a string");
    if (json_kind(value) != JSON_KIND_ARRAY)
        return fail_at(reader, key, "must be an array");
    if (str_eq(key, STR("ports")))
        return each_text(reader, rule, value, "ports", add_port);
    if (str_eq(key, STR("methods")))
        return each_text(reader, rule, value, "methods", add_method);
    if (str_eq(key, STR("paths")))
        return each_text(reader, rule, value, "paths", add_path);
    return fail_at(reader, key, "unknown key; the keys are host, ports, methods and paths");
}

static int read_json_rule(struct reader *reader, struct json_t *value, bool is_deny)
{
    struct policy_rule *rule;
    struct str text, key;
    struct json_t *member;
    void *iter = NULL;
    if (new_rule(reader, is_deny, &rule) < 0)
        return -1;
    if (json_to_str(value, &text)) {
        if (read_rule(reader, rule, text) < 0)
            return -1;
        return check_rule(reader, rule, is_deny);
    }
    if (json_kind(value) != JSON_KIND_OBJECT || json_get(value, "host") == NULL)
        return fail_at(reader, STR("allow"), "an entry must be a string or an object with a host");
    while (json_next(value, &iter, &key, &member))
        if (read_rule_member(reader, rule, key, member) < 0)
            return -1;
    return check_rule(reader, rule, is_deny);
}

static int read_json_private(struct reader *reader, struct json_t *value)
{
    struct policy_private *entry;
    struct str text, host, address;
    int64_t port;
    if (new_private(reader, &entry) < 0)
        return -1;
    if (json_to_str(value, &text))
        return read_private(reader, entry, text);
    if (json_kind(value) != JSON_KIND_OBJECT || json_len(value) != 3 ||
        !json_to_str(json_get(value, "host"), &host) ||
        !json_to_str(json_get(value, "address"), &address) ||
        !json_to_i64(json_get(value, "port"), &port))
        return fail_at(reader, STR("private"), "an entry must be {host, address, port}");
    AUTO_BUF struct buf line = {0};
    bool is_v6 = str_find_char(address, ':') < address.len && address.ptr[0] != '[';
    buf_put(&line, host);
    buf_put_cstr(&line, is_v6 ? "=[" : "=");
    buf_put(&line, address);
    buf_printf(&line, "%s:%lld", is_v6 ? "]" : "", (long long)port);
    return read_private(reader, entry, buf_str(&line));
}

static int read_json_mode(struct reader *reader, const struct json_t *value)
{
    static const char *const names[] = {"none", "list", "public"};
    struct str text;
    if (!json_to_str(value, &text))
        return fail_at(reader, STR("mode"), "must be none, list or public");
    for (int i = 0; i < (int)countof(names); i++)
        if (str_eq(text, str_of(names[i])))
            return set_mode(reader, (enum policy_mode)i, text);
    return fail_at(reader, text, "the mode must be none, list or public");
}

static int read_json_member(struct reader *reader, struct str key, const struct json_t *value)
{
    if (str_eq(key, STR("mode")))
        return read_json_mode(reader, value);
    bool is_private = str_eq(key, STR("private")), is_deny = str_eq(key, STR("deny"));
    if (!is_private && !is_deny && !str_eq(key, STR("allow")))
        return fail_at(reader, key, "unknown key; the keys are mode, allow, deny and private");
    if (json_kind(value) != JSON_KIND_ARRAY)
        return fail_at(reader, key, "must be an array");
    for (size_t i = 0; i < json_len(value); i++) {
        struct json_t *item = json_at(value, i);
        int result =
            is_private ? read_json_private(reader, item) : read_json_rule(reader, item, is_deny);
        if (result < 0)
            return -1;
    }
    return 0;
}

static int read_json(struct reader *reader, struct str text)
{
    AUTO_JSON struct json_t *root = NULL;
    if (json_parse(text, &root, reader->err) < 0)
        return err_wrap(reader->err, "policy");
    void *iter = NULL;
    struct str key;
    struct json_t *value;
    if (json_kind(root) != JSON_KIND_OBJECT)
        return fail_at(reader, text, "must be an object");
    while (json_next(root, &iter, &key, &value))
        if (read_json_member(reader, key, value) < 0)
            return -1;
    return 0;
}

/* What the parts make together. */
static int settle_mode(struct reader *reader)
{
    struct policy *policy = reader->policy;
    bool has_entries = policy->allow.len + policy->private.len > 0;
    if (!reader->has_mode)
        policy->mode = has_entries ? POLICY_LIST : POLICY_NONE;
    if (policy->mode == POLICY_LIST && !has_entries)
        policy->mode = POLICY_NONE;
    if (policy->mode == POLICY_NONE && has_entries)
        return fail_at(reader, STR("none"), "cannot be combined with allow or private");
    if (policy->mode == POLICY_PUBLIC && policy->allow.len > 0)
        return fail_at(reader, STR("public"), "allows every public host already; drop 'allow'");
    return 0;
}

int policy_parse(struct str text, enum policy_author author, struct policy **ret_policy,
                 struct err *err)
{
    if (text.len > POLICY_TEXT_MAX)
        return err_set(err, ERR_TOO_LARGE, "the policy has more than %d bytes", POLICY_TEXT_MAX);
    AUTO_POLICY struct policy *policy = mem_alloc(sizeof *policy);
    policy->refs = 1;
    struct reader reader = {.policy = policy, .author = author, .err = err};
    text = str_trim(text);
    bool is_json = text.len > 0 && text.ptr[0] == '{';
    if ((is_json ? read_json(&reader, text) : read_text(&reader, text)) < 0 ||
        settle_mode(&reader) < 0)
        return -1;
    *ret_policy = policy_ref(policy);
    return 0;
}

struct policy *policy_ref(struct policy *policy)
{
    policy->refs++;
    return policy;
}

size_t policy_private_addresses(const struct policy *policy, const struct host *host,
                                uint16_t *port, struct ip *ret_addresses, size_t max)
{
    size_t count = 0;
    if (policy == NULL)
        return 0;
    VEC_EACH (entry, &policy->private) {
        if (strcmp(entry->host.text, host->text) != 0 || (*port != 0 && entry->port != *port) ||
            count == max)
            continue;
        *port = entry->port;
        ret_addresses[count++] = entry->ip;
    }
    return count;
}

struct policy *policy_free(struct policy *policy)
{
    if (policy == NULL || --policy->refs > 0)
        return NULL;
    vec_done(&policy->allow);
    vec_done(&policy->deny);
    vec_done(&policy->private);
    arena_done(&policy->arena);
    free(policy);
    return NULL;
}
