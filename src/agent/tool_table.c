/* The tools, one row each. */

#include "agent/internal.h"

#define JSON(...) #__VA_ARGS__
#define OBJECT(members)                                                                            \
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" members "}}"
#define NEEDS(names, members)                                                                      \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":" names                      \
    ",\"properties\":{" members "}}"
/* What an answer says of itself; more members may come. */
#define GIVES(names, members)                                                                      \
    "{\"type\":\"object\",\"required\":" names ",\"properties\":{" members "}}"

/* clang-format off */
#define M_SUCCESS JSON("success": {"type": "boolean"})
#define M_PATH JSON("path": {"type": "string", "minLength": 1, "maxLength": 4096, \
    "description": "Absolute, or relative to /workspace"})
#define M_DIR JSON("dirPath": {"type": "string", "maxLength": 4096, \
    "description": "Directory to search; default /workspace"})
#define M_SEARCH_ALL JSON("searchAll": {"type": "boolean", \
    "description": "Also search .git, node_modules and .sandglass, which are skipped otherwise"})
#define M_TRUNCATED JSON("truncated": {"type": "boolean"}, "note": {"type": "string"})
#define M_COMMAND JSON("stdout": {"type": "string"}, "stderr": {"type": "string"}, \
    "running": {"type": "boolean"}, "exitCode": {"type": ["integer", "null"]}, \
    "signal": {"type": "integer"}, "ended": {"type": "string"}, "reason": {"type": "string"}, "leftOutBytes": {"type": "integer"}, \
    "id": {"type": "string"}, "nextOffset": {"type": "integer"})
#define M_TIMEOUT(help) "\"timeoutMs\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":0," \
    "\"maximum\":31536000000},{\"type\":\"string\",\"enum\":[\"none\"]}],\"description\":\"" help "\"}"
#define M_ID JSON("id": {"type": "string", "minLength": 1, "maxLength": 64, \
    "description": "The id that bash returned"})

const struct tool tools[] = {
    {"run_code", "Run code",
     "Runs code in the session's sandbox and returns its value, its output and its error. Variables and files are kept for the next call.",
     NEEDS(JSON(["code", "description"]),
        JSON("code": {"type": "string", "maxLength": 8388608}) ","
        JSON("description": {"type": "string", "maxLength": 1000,
            "description": "What the code does, in a few words, for the user"}) ","
        JSON("language": {"type": "string", "enum": ["python", "javascript", "typescript", "bash"],
            "description": "Default: the language of the sandbox's runtime, usually python; typescript in an isolate"}) ","
        M_TIMEOUT("Default: the limit of the session; 0 or none for no limit")),
     GIVES(JSON(["success"]), M_SUCCESS ","
        JSON("result": {"description": "The value of the last expression, as JSON if possible"},
            "text": {"type": "string", "description": "The displayed text, if it contains more than result"}) ","
        JSON("images": {"type": "integer", "description": "Number of images in the response"},
            "files": {"type": "array", "items": {"type": "object"}},
            "note": {"type": "string", "description": "What was left out of this result, and how to get it"},
            "stateLost": {"type": "boolean", "description": "Variables of earlier runs are lost"},
            "stateLostReason": {"type": "string", "description": "dormant, restart, timeout, ..."}) ","
        JSON("stateLostAt": {"type": "string"}, "stateLostMessage": {"type": "string"}) ","
        JSON("error": {"type": "object"}, "stdout": {"type": "string"}, "stderr": {"type": "string"})),
     TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD, tool_run_code},
    {"search_docs", "Search documentation",
     "Finds the parts of the documentation that answer a question, and modules that were saved earlier. Call it before writing code against a package.",
     NEEDS(JSON(["query"]),
        JSON("query": {"type": "string", "minLength": 1, "maxLength": 4096,
            "description": "A question, words, or the name of a function"}) ","
        JSON("package": {"type": "string", "maxLength": 214, "description": "Only this package"}) ","
        JSON("limit": {"type": "integer", "minimum": 1, "maximum": 20, "description": "Default 5"})),
     GIVES(JSON(["success", "results", "more"]), M_SUCCESS ","
        JSON("results": {"type": "array", "items": {"type": "object", "properties": {
            "type": {"type": "string", "description": "doc or module"}, "heading": {"type": "string"},
            "package": {"type": "string"}, "url": {"type": "string"}, "page": {"type": "integer"},
            "description": {"type": "string"}, "content": {"type": "string"}, "score": {"type": "number"}}}}) ","
        JSON("more": {"type": "integer", "description": "Results that were left out"},
            "corrected": {"type": "string", "description": "Words that were searched instead of misspelled ones"},
            "mode": {"type": "string", "description": "keyword: only words were compared, not meaning"})),
     TOOL_READ_ONLY | TOOL_OF_DOCS, tool_search_docs},
    {"bash", "Run a command",
     "Runs a shell command in /workspace and returns its output and exit code. With background it returns an id at once: see bash_output and bash_stop.",
     NEEDS(JSON(["command"]),
        JSON("command": {"type": "string", "minLength": 1, "maxLength": 131072}) ","
        M_TIMEOUT("Default 120000; 0 or none for no limit; no limit in the background") ","
        JSON("background": {"type": "boolean", "description": "Do not wait until it ends"})),
     GIVES(JSON(["success", "stdout", "stderr", "running"]), M_SUCCESS "," M_COMMAND),
     TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD, tool_bash},
    {"bash_output", "Output of a background command",
     "Returns the output of a background command since offset, and its exit code when it has ended.",
     NEEDS(JSON(["id"]), M_ID ","
        JSON("offset": {"type": "integer", "minimum": 0,
            "description": "nextOffset of the previous result; default 0"}) ","
        JSON("waitMs": {"type": "integer", "minimum": 0, "maximum": 600000,
            "description": "Wait this many milliseconds for the command to end"})),
     GIVES(JSON(["success", "stdout", "stderr", "running"]), M_SUCCESS "," M_COMMAND),
     TOOL_READ_ONLY, tool_bash_output},
    {"bash_stop", "Stop a background command",
     "Kills a background command and all its child processes.",
     NEEDS(JSON(["id"]), M_ID),
     GIVES(JSON(["success", "stdout", "stderr", "running"]), M_SUCCESS "," M_COMMAND),
     TOOL_DESTRUCTIVE | TOOL_REPEATABLE, tool_bash_stop},
    {"read", "Read a file",
     "Returns the text of a file, or shows an image (PNG, JPEG, GIF, WebP). Read files over 100 KB in parts: offset is the first line, limit the number of lines.",
     NEEDS(JSON(["path"]), M_PATH ","
        JSON("offset": {"type": "integer", "minimum": 1, "maximum": 1000000000,
            "description": "First line, counted from 1"}) ","
        JSON("limit": {"type": "integer", "minimum": 1, "maximum": 100000,
            "description": "Number of lines; 2000 when only offset is given"})),
     GIVES(JSON(["success", "path", "size"]), M_SUCCESS ","
        JSON("path": {"type": "string"}, "content": {"type": "string"}, "size": {"type": "integer"},
            "startLine": {"type": "integer"}, "lines": {"type": "integer"},
            "nextOffset": {"type": "integer"}, "mime": {"type": "string"}) "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_read},
    {"write", "Write a file",
     "Writes a whole file and creates missing directories. Says whether the file is new.",
     NEEDS(JSON(["path", "content"]), M_PATH ","
        JSON("content": {"type": "string", "maxLength": 16777216})),
     GIVES(JSON(["success", "path", "created", "size"]), M_SUCCESS ","
        JSON("path": {"type": "string"}, "created": {"type": "boolean"}, "size": {"type": "integer"})),
     TOOL_DESTRUCTIVE | TOOL_REPEATABLE, tool_write},
    {"edit", "Edit a file",
     "Replaces text in a file. oldString must occur in the file exactly once, unless replaceAll is set.",
     NEEDS(JSON(["path", "oldString", "newString"]), M_PATH ","
        JSON("oldString": {"type": "string", "minLength": 1, "maxLength": 1048576}) ","
        JSON("newString": {"type": "string", "maxLength": 1048576}) ","
        JSON("replaceAll": {"type": "boolean"})),
     GIVES(JSON(["success", "path", "replaced", "size"]), M_SUCCESS ","
        JSON("path": {"type": "string"}, "replaced": {"type": "integer"}, "size": {"type": "integer"})),
     TOOL_DESTRUCTIVE, tool_edit},
    {"glob", "Find files by name",
     "Finds paths below a directory: ** any directories, * any name, ? one character, [a-z], {a,b}. Returns absolute paths, at most 1000.",
     NEEDS(JSON(["pattern"]), M_DIR "," M_SEARCH_ALL ","
        JSON("pattern": {"type": "string", "minLength": 1, "maxLength": 1024})),
     GIVES(JSON(["success", "paths", "truncated"]), M_SUCCESS ","
        JSON("paths": {"type": "array", "items": {"type": "string"}}) "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_glob},
    {"grep", "Search in files",
     "Finds lines that match a regular expression in the text files below a directory. Paths are "
     "absolute.",
     NEEDS(JSON(["pattern"]), M_DIR "," M_SEARCH_ALL ","
        JSON("pattern": {"type": "string", "minLength": 1, "maxLength": 1024,
            "description": "Regular expression"}) ","
        JSON("glob": {"type": "string", "maxLength": 1024, "description": "Only files like *.ts"}) ","
        JSON("ignoreCase": {"type": "boolean"}) ","
        JSON("maxResults": {"type": "integer", "minimum": 1, "maximum": 1000,
            "description": "Default 100"})),
     GIVES(JSON(["success", "matches", "truncated"]), M_SUCCESS ","
        JSON("matches": {"type": "array", "items": {"type": "object", "properties": {
            "path": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"}}}})
        "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_grep},
    {"list", "List a directory",
     "Returns names, types and sizes in a directory, at most 1000; with after it continues after that name.",
     OBJECT(JSON("path": {"type": "string", "maxLength": 4096,
            "description": "Absolute, or relative to /workspace; default /workspace"}) ","
        JSON("recursive": {"type": "boolean"}) ","
        JSON("after": {"type": "string", "maxLength": 4096, "description": "Last name seen"})),
     GIVES(JSON(["success", "entries", "truncated"]), M_SUCCESS ","
        JSON("entries": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "type": {"type": "string"}, "size": {"type": "integer"}}}})
        "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_list},
    {"exists", "Check whether a file exists",
     "Says whether a path exists, and what it is.",
     NEEDS(JSON(["path"]), M_PATH),
     GIVES(JSON(["success", "exists"]), M_SUCCESS ","
        JSON("exists": {"type": "boolean"}, "type": {"type": "string"}, "size": {"type": "integer"})),
     TOOL_READ_ONLY, tool_exists},
    {"delete", "Delete a file",
     "Deletes a file, or with recursive a directory and its contents.",
     NEEDS(JSON(["path"]), M_PATH "," JSON("recursive": {"type": "boolean"})),
     GIVES(JSON(["success", "deleted"]), M_SUCCESS "," JSON("deleted": {"type": "integer"})),
     TOOL_DESTRUCTIVE, tool_delete},
    {"move", "Move a file",
     "Moves or renames a file or directory.",
     NEEDS(JSON(["from", "to"]),
        JSON("from": {"type": "string", "minLength": 1, "maxLength": 4096},
            "to": {"type": "string", "minLength": 1, "maxLength": 4096},
            "replace": {"type": "boolean", "description": "Replace an existing file"})),
     GIVES(JSON(["success", "path"]), M_SUCCESS "," JSON("path": {"type": "string"})),
     TOOL_DESTRUCTIVE, tool_move},
    {"undo", "Undo file changes",
     "Restores the files in /workspace to their state before the last call that changed them, or to a checkpoint named in an earlier result. Programs and variables are not affected.",
     OBJECT(JSON("to": {"type": "string", "minLength": 1, "maxLength": 64,
            "description": "Id of a checkpoint; default: one step back"})),
     GIVES(JSON(["success", "checkpoint", "before", "checkpoints"]), M_SUCCESS ","
        JSON("checkpoint": {"type": "string", "description": "The checkpoint that was restored"},
            "before": {"type": "string", "description": "The call before which it was created"}) ","
        JSON("checkpoints": {"type": "array", "description": "Checkpoints that undo can restore, oldest first; those before undo hold what an undo replaced",
            "items": {"type": "object", "properties": {
            "checkpoint": {"type": "string"}, "before": {"type": "string"}}}})),
     TOOL_DESTRUCTIVE | TOOL_OF_TURNS, tool_undo},
    {0},
};
/* clang-format on */
