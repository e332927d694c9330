/* The zones of the C library as a command: c_zones PROGRAM DIR VERB PATH, data on standard input.
 * DIR is /workspace; root:DIR has both zones in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandglass.h"

static char *read_input(size_t *ret_len)
{
    size_t len = 0, cap = 1 << 16;
    char *bytes = malloc(cap);
    for (size_t count; (count = fread(bytes + len, 1, cap - len, stdin)) > 0;) {
        len += count;
        if (len == cap)
            bytes = realloc(bytes, cap *= 2);
    }
    *ret_len = len;
    return bytes;
}

typedef int search(sg_zones *zones, const char *path, const char *asked_json, char **ret_json);

static const struct {
    const char *name;
    search *run;
} searches[] = {{"glob", sg_zones_glob}, {"grep", sg_zones_grep}, {"edit", sg_zones_edit}};

static search *search_of(const char *verb)
{
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++)
        if (strcmp(verb, searches[i].name) == 0)
            return searches[i].run;
    return NULL;
}

/* What it is asked for comes as standard input. */
static int run_search(sg_zones *zones, search *verb, const char *path)
{
    size_t len;
    char *asked = read_input(&len), *answer = NULL;
    asked = realloc(asked, len + 1);
    asked[len] = '\0';
    int result = verb(zones, path, asked, &answer);
    if (result == 0)
        (void)fputs(answer, stdout);
    sg_free(answer);
    free(asked);
    return result;
}

static int run(sg_zones *zones, const char *verb, const char *path)
{
    if (search_of(verb) != NULL)
        return run_search(zones, search_of(verb), path);

    char *bytes = NULL;
    size_t len = 0;
    int result = -1;
    if (strcmp(verb, "write") == 0) {
        bytes = read_input(&len);
        result = sg_zones_write(zones, path, bytes, len);
        len = 0;
    } else if (strcmp(verb, "read") == 0) {
        result = sg_zones_read(zones, path, &bytes, &len);
    } else if (strncmp(verb, "delete", 6) == 0) {
        result = sg_zones_delete(zones, path, strcmp(verb, "delete_all") == 0);
    } else if (strcmp(verb, "exists") == 0) {
        result = sg_zones_exists(zones, path);
        if (result >= 0)
            (void)printf("%s\n", result ? "true" : "false");
    } else if (strcmp(verb, "list") == 0) {
        result = sg_zones_list(zones, path, &bytes, &len);
        for (size_t i = 0; i < len; i++)
            bytes[i] = bytes[i] == '\0' ? '\n' : bytes[i];
    } else if (strcmp(verb, "resolve") == 0) {
        result = sg_zones_resolve(zones, path, &bytes);
        len = result == 0 ? strlen(bytes) : 0;
    }
    if (result >= 0)
        (void)fwrite(bytes, 1, len, stdout);
    sg_free(bytes);
    return result;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    sg_zones *zones = strncmp(argv[2], "root:", 5) == 0
                          ? sg_zones_open_root(argv[1], argv[2] + 5, 0)
                          : sg_zones_open(argv[1], argv[2], NULL, 0);
    if (zones == NULL)
        return 2;
    int result = run(zones, argv[3], argv[4]);
    if (result < 0)
        (void)printf("{\"error\":{\"code\":\"%s\",\"message\":\"of C\"}}\n",
                     sg_zones_error_code(zones));
    sg_zones_close(zones);
    return result < 0;
}
