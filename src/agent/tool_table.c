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
    "description": "Directory to search; /workspace when left out"})
#define M_TRUNCATED JSON("truncated": {"type": "boolean"}, "note": {"type": "string"})
#define M_COMMAND JSON("stdout": {"type": "string"}, "stderr": {"type": "string"}, \
    "running": {"type": "boolean"}, "exitCode": {"type": ["integer", "null"]}, \
    "signal": {"type": "integer"}, "ended": {"type": "string"}, "leftOutBytes": {"type": "integer"}, \
    "id": {"type": "string"}, "nextOffset": {"type": "integer"})
#define M_ID JSON("id": {"type": "string", "minLength": 1, "maxLength": 64, \
    "description": "As bash gave it"})

const struct tool tools[] = {
    {"run_code", "Run code",
     "Runs code in the session's sandbox and gives its value, what it printed and its error. "
     "Variables and files stay for the next call.",
     NEEDS(JSON(["code", "description"]),
        JSON("code": {"type": "string", "maxLength": 8388608}) ","
        JSON("description": {"type": "string", "maxLength": 1000,
            "description": "What the code does, in a few words, for the user"}) ","
        JSON("language": {"type": "string", "enum": ["python", "javascript", "typescript", "bash"],
            "description": "python when left out; typescript where the session is an isolate"}) ","
        JSON("timeoutMs": {"type": "integer", "minimum": 1, "maximum": 600000})),
     GIVES(JSON(["success"]), M_SUCCESS ","
        JSON("result": {"description": "The value of the last expression, as JSON where it has one"},
            "text": {"type": "string", "description": "What was shown, where that is more"}) ","
        JSON("images": {"type": "integer", "description": "How many pictures come with the answer"},
            "files": {"type": "array", "items": {"type": "object"}},
            "stateLost": {"type": "boolean", "description": "Variables are gone"}) ","
        JSON("error": {"type": "object"}, "stdout": {"type": "string"}, "stderr": {"type": "string"})),
     TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD, tool_run_code},
    {"bash", "Run a command",
     "Runs a shell command in /workspace and gives its output and exit code. With background it "
     "answers at once with an id: see bash_output and bash_stop.",
     NEEDS(JSON(["command"]),
        JSON("command": {"type": "string", "minLength": 1, "maxLength": 131072}) ","
        JSON("timeoutMs": {"type": "integer", "minimum": 1, "maximum": 86400000,
            "description": "120000 when left out; none in the background"}) ","
        JSON("background": {"type": "boolean", "description": "Do not wait for its end"})),
     GIVES(JSON(["success", "stdout", "stderr", "running"]), M_SUCCESS "," M_COMMAND),
     TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD, tool_bash},
    {"bash_output", "Output of a background command",
     "Gives what a command in the background has put out since offset, and its exit code once it "
     "has ended.",
     NEEDS(JSON(["id"]), M_ID ","
        JSON("offset": {"type": "integer", "minimum": 0,
            "description": "nextOffset of the answer before; 0 when left out"}) ","
        JSON("waitMs": {"type": "integer", "minimum": 0, "maximum": 600000,
            "description": "Wait so long for its end"})),
     GIVES(JSON(["success", "stdout", "stderr", "running"]), M_SUCCESS "," M_COMMAND),
     TOOL_READ_ONLY, tool_bash_output},
    {"bash_stop", "Stop a background command",
     "Ends a command in the background with all its children.",
     NEEDS(JSON(["id"]), M_ID),
     GIVES(JSON(["success", "stdout", "stderr", "running"]), M_SUCCESS "," M_COMMAND),
     TOOL_DESTRUCTIVE | TOOL_REPEATABLE, tool_bash_stop},
    {"read", "Read a file",
     "Gives the text of a file, or shows a picture (PNG, JPEG, GIF, WebP). Files over 100 KB are "
     "read in parts: offset is the first line, limit the number of lines.",
     NEEDS(JSON(["path"]), M_PATH ","
        JSON("offset": {"type": "integer", "minimum": 1, "maximum": 1000000000,
            "description": "First line, counted from 1"}) ","
        JSON("limit": {"type": "integer", "minimum": 1, "maximum": 100000,
            "description": "Lines; 2000 when only offset is given"})),
     GIVES(JSON(["success", "path", "size"]), M_SUCCESS ","
        JSON("path": {"type": "string"}, "content": {"type": "string"}, "size": {"type": "integer"},
            "startLine": {"type": "integer"}, "lines": {"type": "integer"},
            "nextOffset": {"type": "integer"}, "mime": {"type": "string"}) "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_read},
    {"write", "Write a file",
     "Writes a whole file, making directories on the way. Says whether the file is new.",
     NEEDS(JSON(["path", "content"]), M_PATH ","
        JSON("content": {"type": "string", "maxLength": 16777216})),
     GIVES(JSON(["success", "path", "created", "size"]), M_SUCCESS ","
        JSON("path": {"type": "string"}, "created": {"type": "boolean"}, "size": {"type": "integer"})),
     TOOL_DESTRUCTIVE | TOOL_REPEATABLE, tool_write},
    {"edit", "Edit a file",
     "Replaces text in a file. oldString must be in the file exactly once, unless replaceAll is set.",
     NEEDS(JSON(["path", "oldString", "newString"]), M_PATH ","
        JSON("oldString": {"type": "string", "minLength": 1, "maxLength": 1048576}) ","
        JSON("newString": {"type": "string", "maxLength": 1048576}) ","
        JSON("replaceAll": {"type": "boolean"})),
     GIVES(JSON(["success", "path", "replaced", "size"]), M_SUCCESS ","
        JSON("path": {"type": "string"}, "replaced": {"type": "integer"}, "size": {"type": "integer"})),
     TOOL_DESTRUCTIVE, tool_edit},
    {"glob", "Find files by name",
     "Finds paths below a directory: ** any directories, * any name, ? one character, [a-z], {a,b}. "
     "At most 1000.",
     NEEDS(JSON(["pattern"]), M_DIR ","
        JSON("pattern": {"type": "string", "minLength": 1, "maxLength": 1024})),
     GIVES(JSON(["success", "paths", "truncated"]), M_SUCCESS ","
        JSON("paths": {"type": "array", "items": {"type": "string"}}) "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_glob},
    {"grep", "Search in files",
     "Finds lines that match a regular expression in the text files below a directory.",
     NEEDS(JSON(["pattern"]), M_DIR ","
        JSON("pattern": {"type": "string", "minLength": 1, "maxLength": 1024,
            "description": "Regular expression"}) ","
        JSON("glob": {"type": "string", "maxLength": 1024, "description": "Only files like *.ts"}) ","
        JSON("ignoreCase": {"type": "boolean"}) ","
        JSON("maxResults": {"type": "integer", "minimum": 1, "maximum": 1000,
            "description": "100 when left out"})),
     GIVES(JSON(["success", "matches", "truncated"]), M_SUCCESS ","
        JSON("matches": {"type": "array", "items": {"type": "object", "properties": {
            "path": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"}}}})
        "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_grep},
    {"list", "List a directory",
     "Gives names, types and sizes in a directory. At most 1000; after goes on behind a name.",
     OBJECT(JSON("path": {"type": "string", "maxLength": 4096,
            "description": "Absolute, or relative to /workspace, which it is when left out"}) ","
        JSON("recursive": {"type": "boolean"}) ","
        JSON("after": {"type": "string", "maxLength": 4096, "description": "Last name seen"})),
     GIVES(JSON(["success", "entries", "truncated"]), M_SUCCESS ","
        JSON("entries": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "type": {"type": "string"}, "size": {"type": "integer"}}}})
        "," M_TRUNCATED),
     TOOL_READ_ONLY, tool_list},
    {"exists", "Look whether a file exists",
     "Says whether a path exists, and what it is.",
     NEEDS(JSON(["path"]), M_PATH),
     GIVES(JSON(["success", "exists"]), M_SUCCESS ","
        JSON("exists": {"type": "boolean"}, "type": {"type": "string"}, "size": {"type": "integer"})),
     TOOL_READ_ONLY, tool_exists},
    {"delete", "Delete a file",
     "Deletes a file, or with recursive a directory and all in it.",
     NEEDS(JSON(["path"]), M_PATH "," JSON("recursive": {"type": "boolean"})),
     GIVES(JSON(["success", "deleted"]), M_SUCCESS "," JSON("deleted": {"type": "integer"})),
     TOOL_DESTRUCTIVE, tool_delete},
    {"move", "Move a file",
     "Moves or renames a file or directory.",
     NEEDS(JSON(["from", "to"]),
        JSON("from": {"type": "string", "minLength": 1, "maxLength": 4096},
            "to": {"type": "string", "minLength": 1, "maxLength": 4096},
            "replace": {"type": "boolean", "description": "Also when there is a file already"})),
     GIVES(JSON(["success", "path"]), M_SUCCESS "," JSON("path": {"type": "string"})),
     TOOL_DESTRUCTIVE, tool_move},
    {0},
};
/* clang-format on */
