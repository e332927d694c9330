/* What may have been meant by a command that does not exist. */

#include "base/buf.h"
#include "cli/internal.h"

bool cli_is_group(struct str word)
{
    CLI_EACH_VERB (verb) {
        struct str name = str_of(verb->name);
        if (name.len > word.len && name.ptr[word.len] == ' ' && str_starts(name, word))
            return true;
    }
    return false;
}

/* Words of other programs for ours, which look too different to be found as misspelled. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    {"list", "ls"},     {"delete", "rm"},      {"remove", "rm"},        {"destroy", "rm"},
    {"show", "get"},    {"info", "get"},       {"inspect", "get"},      {"describe", "get"},
    {"new", "create"},  {"make", "create"},    {"add", "create"},       {"run", "exec"},
    {"ps", "commands"}, {"signal", "kill"},    {"edit", "update"},      {"set", "update"},
    {"upload", "put"},  {"write", "put"},      {"read", "cat"},         {"find", "glob"},
    {"search", "grep"}, {"unpause", "resume"}, {"restore", "rollback"},
};

/* The visible verb of that group and second word, or NULL; any group when `group` is empty. */
static const struct cli_verb *suggest_find(struct str group, struct str second)
{
    CLI_EACH_VERB (verb) {
        struct str rest = str_of(verb->name), first;
        (void)str_split(&rest, ' ', &first);
        if (!verb->hidden && rest.len > 0 && str_eq(rest, second) &&
            (group.len == 0 || str_eq(first, group)))
            return verb;
    }
    return NULL;
}

/* Exactly, or by a synonym. */
static const struct cli_verb *find_word(struct str group, struct str second)
{
    const struct cli_verb *verb = suggest_find(group, second);
    for (size_t i = 0; verb == NULL && i < countof(synonyms); i++)
        if (str_eq(second, str_of(synonyms[i].theirs)))
            verb = suggest_find(group, str_of(synonyms[i].ours));
    return verb;
}

/* Only the second words of the group are compared: with the first word any two of them would look
 * alike. */
static const struct cli_verb *find_in_group(struct str group, struct str second)
{
    struct nearest nearest = {.word = second};
    const struct cli_verb *verb = find_word(group, second);
    if (verb != NULL)
        return verb;
    CLI_EACH_VERB (each) {
        struct str rest = str_of(each->name), first;
        (void)str_split(&rest, ' ', &first);
        if (!each->hidden && rest.len > 0 && str_eq(first, group))
            nearest_offer(&nearest, rest);
    }
    return nearest.best.len == 0 ? NULL : suggest_find(group, nearest.best);
}

void cli_suggest(struct str first, struct str second, struct buf *out)
{
    struct nearest nearest = {.word = first};
    const struct cli_verb *verb = NULL;
    if (cli_is_group(first)) {
        verb = find_in_group(first, second);
    } else if ((verb = find_word(STR("sandbox"), first)) == NULL &&
               (verb = find_word((struct str){0}, first)) == NULL) {
        CLI_EACH_VERB (each) {
            struct str rest = str_of(each->name), word;
            (void)str_split(&rest, ' ', &word);
            if (!each->hidden)
                nearest_offer(&nearest, word);
        }
        bool is_group = nearest.best.len > 0 && cli_is_group(nearest.best);
        verb = is_group && second.len > 0 ? find_in_group(nearest.best, second) : NULL;
    }
    buf_put(out, verb != NULL ? str_of(verb->name) : nearest.best);
}
