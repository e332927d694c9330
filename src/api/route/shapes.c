#include "api/route/shapes.h"

#include "api/route/route.h"

/* clang-format off */
#define TEXT "{\"type\":\"string\"}"
#define MAYBE "{\"type\":[\"string\",\"null\"]}"
#define DATE "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define WHOLE "{\"type\":\"integer\"}"
#define FLAG "{\"type\":\"boolean\"}"
#define LABELS "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"
#define P(name, schema) "\"" name "\":" schema
#define A(schema) "{\"type\":\"array\",\"items\":" schema "}"
#define R(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define OBJECT(required, properties) \
    "{\"type\":\"object\",\"required\":" required ",\"properties\":{" properties "}}"
#define LIST(key, name) \
    OBJECT("[\"" key "\",\"next\"]", P(key, A(R(name))) "," P("next", MAYBE))

#define CHECKPOINT OBJECT("[\"id\",\"createdAt\"]", \
    P("id", TEXT) "," P("name", MAYBE) "," P("createdAt", DATE) "," P("automatic", FLAG) "," \
    P("before", MAYBE) "," P("sizeBytes", WHOLE) "," \
    P("skipped", JSON({"type": ["string", "null"], \
        "description": "Files that could not be copied, in the response that created the object"})))

#define COMMAND_MEMBERS \
    P("id", TEXT) "," P("sandbox", TEXT) "," P("argv", A(TEXT)) "," P("command", MAYBE) "," \
    P("cwd", TEXT) "," P("tty", FLAG) "," \
    P("state", JSON({"type": "string", "enum": ["running", "ended"]})) "," \
    P("pid", JSON({"type": ["integer", "null"], "description": "Process id in the sandbox, while it runs"})) "," \
    P("startedAt", DATE) "," P("endedAt", DATE) "," \
    P("exitCode", JSON({"type": ["integer", "null"]})) "," \
    P("signal", JSON({"type": ["integer", "null"]})) "," \
    P("end", JSON({"type": ["string", "null"], "description": "Why it ended"})) "," \
    P("reason", JSON({"type": ["string", "null"], "description": "Why it was ended, and what to do"})) "," \
    P("timeoutMs", JSON({"type": "integer", "description": "Its time limit; 0: no limit"})) "," \
    P("timeoutBy", JSON({"type": ["string", "null"], "description": "Origin of the limit: timeoutMs, tool, limits.execMs or a configuration key"})) "," \
    P("durationMs", JSON({"type": "number"})) "," \
    P("outputOpen", JSON({"type": "boolean", "description": "It has ended, but processes that it left running hold its output: the log may grow"})) "," \
    P("logEnd", JSON({"type": "integer", "description": "Offset after the last byte of the log"})) "," \
    P("truncated", FLAG) "," P("missingBytes", WHOLE)

#define TOKEN_MEMBERS \
    P("id", TEXT) "," P("name", MAYBE) "," P("tenant", TEXT) "," P("scopes", A(TEXT)) "," \
    P("createdAt", DATE) "," P("expiresAt", DATE) "," P("ratePerMinute", WHOLE) "," \
    P("quota", OBJECT("[]", P("sandboxes", WHOLE) "," P("memoryMb", WHOLE) "," P("diskMb", WHOLE)))

/* Of every run; then of a run in an isolate, and of one in a jail. */
#define RUN_MEMBERS \
    P("sandbox", JSON({"type": "string", "description": "The sandbox that ran the code; absent when it was made for this run only"})) "," \
    P("status", JSON({"type": "string", "enum": ["ok", "error", "timeout", "out_of_memory", "interrupted", "crash", "died"], \
        "description": "crash: the isolate ended; died: the interpreter in a jail ended"})) "," \
    P("success", JSON({"type": "boolean", "description": "status is ok"})) "," \
    P("result", JSON({"description": "The value of the code as JSON; null if it has none or JSON cannot represent it"})) "," \
    P("error", JSON({"type": ["object", "null"], "description": "null: status is ok", \
        "required": ["name", "message"], "properties": {"name": {"type": "string"}, "message": {"type": "string"}, \
        "stack": {"type": "string", "description": "In an isolate"}, \
        "traceback": {"type": "string", "description": "In a jail; empty where the language has none"}}})) "," \
    P("stateLost", JSON({"type": "boolean", "description": "The variables of earlier runs are gone"})) "," \
    P("stateLostReason", JSON({"type": ["string", "null"], "enum": [null, "dormant", "restart", "rollback", "timeout", \
        "out_of_memory", "volume_expired", "volume_deleted", "exited", "context_restart", "sandbox_ended", "fork"]})) "," \
    P("stateLostAt", DATE) "," \
    P("stateLostMessage", JSON({"type": ["string", "null"], "description": "The reason as a sentence"})) "," \
    P("stdout", TEXT) "," P("stderr", TEXT) "," \
    P("truncatedStdout", JSON({"type": "integer", "description": "Omitted from stdout: bytes in a jail, console calls in an isolate"})) "," \
    P("truncatedStderr", JSON({"type": "integer", "description": "The same for stderr"})) "," \
    P("truncatedMessage", JSON({"type": ["string", "null"], "description": "What is missing in an isolate's output or in the values, and which setting or request gives it"})) "," \
    P("durationMs", JSON({"type": "number"}))

#define RUN_ISOLATE_MEMBERS \
    P("codeSize", JSON({"type": "integer", "description": "In an isolate: the length of the code in bytes"})) "," \
    P("environment", JSON({"type": "object", "description": "In an isolate: what the code ran with", \
        "required": ["language", "runtime", "timeoutMs", "limits"], "properties": { \
        "language": {"type": "string", "enum": ["javascript", "typescript"]}, "runtime": {"type": "string"}, \
        "timeoutMs": {"type": "integer", "description": "0: no limit"}, \
        "limits": {"type": "object", "properties": {"memoryMb": {"type": "integer"}, "stackKb": {"type": "integer"}, \
            "codeChars": {"type": "integer"}, "consoleLines": {"type": "integer"}, "resultDepth": {"type": "integer"}, \
            "resultItems": {"type": "integer"}}}, \
        "locationHints": {"type": "object", "properties": {"latitude": {"type": ["number", "null"]}, \
            "longitude": {"type": ["number", "null"]}, "city": {"type": ["string", "null"]}, \
            "country": {"type": ["string", "null"]}}}, \
        "warnings": {"type": "array", "items": {"type": "string"}}}}))

#define RUN_JAIL_MEMBERS \
    P("runtime", JSON({"type": "string", "description": "In a jail: the runtime of the interpreter"})) "," \
    P("context", JSON({"type": "string", "description": "In a jail: the id of the interpreter"})) "," \
    P("text", JSON({"type": ["string", "null"], "description": "In a jail: the value as text"})) "," \
    P("results", JSON({"type": "array", "description": "In a jail: what the code displayed, and its value (main)", \
        "items": {"type": "object", "required": ["data", "main"], "properties": {"main": {"type": "boolean"}, \
        "data": {"type": "object", "additionalProperties": {"type": "string"}, \
            "description": "By media type: text, or base64 where the type is not text"}}}})) "," \
    P("truncatedResults", JSON({"type": "integer", "description": "In a jail: number of values omitted from results"})) "," \
    P("executionCount", JSON({"type": "integer", "description": "In a jail: the number of this run in its interpreter"})) "," \
    P("files", JSON({"type": ["array", "null"], "description": "In a jail: files that the run changed; null: not searched", \
        "items": {"type": "object", "required": ["path", "change", "size"], "properties": {"path": {"type": "string"}, \
        "change": {"type": "string", "enum": ["created", "changed", "deleted"]}, "size": {"type": ["integer", "null"]}}}})) "," \
    P("moreFiles", JSON({"type": "boolean", "description": "More files were changed than files lists"}))

#define LEFT_OUT JSON({"type": "object", "required": ["bytes"], "properties": {"bytes": {"type": "integer"}, \
    "lines": {"type": "integer", "description": "Absent where they are not known"}}})

#define SCHEMA JSON({"type": "object", "additionalProperties": true, "description": "A JSON Schema"})
#define TOOL_NAMES P("name", TEXT) "," P("description", TEXT)

#define PORT_MEMBERS \
    P("port", WHOLE) "," P("public", FLAG) "," \
    P("url", JSON({"type": "string", "description": "By host name if server.domain is set, else by path"})) "," \
    P("path", JSON({"type": "string", "description": "Relative to the server's address"})) "," \
    P("createdAt", DATE)

const struct shape api_shapes[] = {
    {"Error", OBJECT("[\"error\"]", P("error", OBJECT("[\"code\",\"message\",\"requestId\"]",
        P("code", JSON({"type": "string", "description": "Stable; programs may rely on it"})) ","
        P("message", JSON({"type": "string", "description": "What is wrong and how to correct it"})) ","
        P("path", JSON({"type": "string", "description": "The field of the request, or the file, that caused the error"})) ","
        P("requestId", TEXT))))},
    {"Event", OBJECT("[\"event\"]", P("event", TEXT) "," P("id", TEXT) "," P("data", JSON({"description": "A JSON value; the event decides its members"})))},
    {"Sandbox", OBJECT("[\"id\",\"tier\",\"runtime\",\"state\",\"createdAt\"]",
        P("id", TEXT) "," P("name", MAYBE) ","
        P("tier", JSON({"type": "string", "enum": ["jail", "isolate", "memory"]})) ","
        P("runtime", TEXT) ","
        P("state", JSON({"type": "string", "enum": ["creating", "running", "pausing", "paused",
            "resuming", "stopping", "stopped", "failed", "interrupted"]})) ","
        P("reason", MAYBE) "," P("region", TEXT) "," P("session", MAYBE) "," P("volume", MAYBE) ","
        P("forkedFrom", MAYBE) ","
        P("skipped", JSON({"type": ["string", "null"],
            "description": "Files that the last checkpoint, fork, snapshot or pause could not copy"})) ","
        P("storage", JSON({"type": "string", "enum": ["disk", "memory"],
            "description": "Where its files are: files on disk survive a restart of the server"})) ","
        P("snapshots", A(TEXT)) "," P("metadata", LABELS) ","
        P("checkpointMode", JSON({"type": "string", "enum": ["manual", "turn"]})) ","
        P("limits", OBJECT("[]", P("memoryMb", WHOLE) "," P("diskMb", WHOLE) ","
            P("cpus", JSON({"type": "number"})) "," P("pids", WHOLE) "," P("execMs", WHOLE) "," P("commandMs", WHOLE) ","
            P("netConnections", WHOLE) "," P("netBytesPerSecond", WHOLE) ","
            P("netBytesTotal", WHOLE) "," P("netIdleMs", WHOLE) "," P("netTotalMs", WHOLE) ","
            P("netHeadBytes", WHOLE) "," P("netAnswerBytes", WHOLE))) ","
        P("network", TEXT) ","
        P("secrets", A(OBJECT("[\"name\",\"hosts\"]", P("name", TEXT) "," P("config", MAYBE) ","
            P("hosts", A(TEXT)) "," P("headers", A(TEXT))))) "," P("timeoutMs", WHOLE) "," P("idleMs", WHOLE) ","
        P("onTimeout", JSON({"type": "string", "enum": ["pause", "kill"]})) ","
        P("createdAt", DATE) "," P("startedAt", DATE) "," P("activeAt", DATE) ","
        P("endedAt", DATE) "," P("expiresAt", DATE) "," P("checkpoints", A(R("Checkpoint"))) ","
        P("contexts", JSON({"type": "array", "description": "In the response to a fork: its interpreters, and whether they kept their variables",
            "items": {"type": "object", "required": ["id", "live"], "properties": {"id": {"type": "string"},
            "live": {"type": "boolean"}, "reason": {"type": ["string", "null"]}}}})) ","
        P("version", WHOLE))},
    {"Sandboxes", OBJECT("[\"sandboxes\"]", P("sandboxes", A(R("Sandbox"))))},
    {"SandboxList", LIST("sandboxes", "Sandbox")},
    {"Usage", OBJECT("[\"sandbox\",\"cpu\",\"memory\",\"disk\",\"network\",\"processes\"]",
        P("sandbox", TEXT) ","
        P("cpu", OBJECT("[]", P("usedMs", JSON({"type": ["integer", "null"]})) ","
            P("cpus", JSON({"type": ["number", "null"], "description": "Average cores in use since the last request"})) ","
            P("limitCpus", JSON({"type": "number"})))) ","
        P("memory", OBJECT("[]", P("bytes", JSON({"type": ["integer", "null"]})) ","
            P("peakBytes", JSON({"type": ["integer", "null"]})) "," P("limitBytes", WHOLE))) ","
        P("disk", OBJECT("[]", P("bytes", JSON({"type": ["integer", "null"], "description": "Of its files, if they are on disk"})) ","
            P("limitBytes", WHOLE))) ","
        P("network", OBJECT("[]", P("bytes", JSON({"type": "integer", "description": "Both directions, since the server started"})))) ","
        P("processes", OBJECT("[]", P("count", JSON({"type": ["integer", "null"], "description": "Processes and their threads"})) ","
            P("limit", WHOLE))))},
    {"Checkpoint", CHECKPOINT},
    {"Command", OBJECT("[\"id\",\"sandbox\",\"state\",\"startedAt\"]", COMMAND_MEMBERS)},
    {"CommandResult", OBJECT("[\"id\",\"sandbox\",\"state\",\"startedAt\"]", COMMAND_MEMBERS ","
        P("stdout", TEXT) "," P("stderr", TEXT) "," P("output", TEXT) ","
        P("leftOut", "{\"type\":[\"object\",\"null\"],\"description\":"
            "\"By stream, bytes and lines that this answer does not hold, and how to get them\",\"properties\":{"
            P("stdout", LEFT_OUT) "," P("stderr", LEFT_OUT) "," P("tty", LEFT_OUT) "," P("hint", TEXT) "}}"))},
    {"CommandList", LIST("commands", "Command")},
    {"CheckpointList", OBJECT("[\"checkpoints\",\"mode\"]",
        P("mode", JSON({"type": "string", "enum": ["manual", "turn"]})) ","
        P("checkpoints", A(R("Checkpoint"))) "," P("note", MAYBE) "," P("noteAt", MAYBE))},
    {"Diff", OBJECT("[\"files\",\"count\",\"truncated\"]", P("files", A(OBJECT("[\"path\",\"change\"]",
        P("path", TEXT) "," P("change", JSON({"type": "string", "enum": ["added", "changed", "deleted"]})) ","
        P("type", TEXT) "," P("sizeBefore", JSON({"type": ["integer", "null"]})) ","
        P("sizeAfter", JSON({"type": ["integer", "null"]})) "," P("text", MAYBE)))) ","
        P("count", WHOLE) "," P("truncated", FLAG))},
    {"RunResult", OBJECT("[\"status\",\"success\",\"result\",\"error\",\"stdout\",\"stderr\",\"truncatedStdout\","
        "\"truncatedStderr\",\"durationMs\",\"stateLost\"]", RUN_MEMBERS "," RUN_ISOLATE_MEMBERS "," RUN_JAIL_MEMBERS)},
    {"RunShort", OBJECT("[\"type\",\"content\"]",
        P("type", JSON({"type": "string", "enum": ["text", "image/png", "error"]})) ","
        P("content", JSON({"type": "string", "description": "The output and the value as text, the picture in base64, or the error"})) ","
        P("note", JSON({"type": "string", "description": "With a picture: why the variables of earlier runs are gone"})))},
    {"RunAnswer", "{\"description\":\"RunShort when the request has short: true\",\"anyOf\":[" R("RunResult") "," R("RunShort") "]}"},
    {"Context", OBJECT("[\"id\",\"runtime\",\"language\",\"cwd\",\"state\"]",
        P("id", TEXT) "," P("runtime", TEXT) "," P("language", TEXT) "," P("cwd", TEXT) ","
        P("state", JSON({"type": "string", "enum": ["cold", "idle", "busy"]})) ","
        P("waiting", WHOLE) "," P("executionCount", WHOLE) "," P("createdAt", DATE))},
    {"ContextList", OBJECT("[\"contexts\"]", P("contexts", A(R("Context"))))},
    {"File", OBJECT("[\"path\",\"type\",\"size\",\"mode\"]",
        P("path", TEXT) ","
        P("type", JSON({"type": "string", "enum": ["file", "directory", "symlink", "other"]})) ","
        P("size", WHOLE) "," P("mode", WHOLE) "," P("modifiedAt", DATE) "," P("target", TEXT) ","
        P("etag", TEXT))},
    {"FileAnswer", OBJECT("[\"file\"]", P("file", R("File")))},
    {"EditAnswer", OBJECT("[\"file\",\"count\"]", P("file", R("File")) "," P("count", WHOLE))},
    {"FileList", OBJECT("[\"entries\",\"truncated\"]",
        P("entries", A(R("File"))) "," P("truncated", FLAG))},
    {"PathList", OBJECT("[\"paths\",\"truncated\"]",
        P("paths", A(TEXT)) "," P("truncated", FLAG))},
    {"MatchList", OBJECT("[\"matches\",\"truncated\"]", P("matches", A(OBJECT(
        "[\"path\",\"line\",\"text\"]", P("path", TEXT) "," P("line", WHOLE) ","
        P("column", WHOLE) "," P("text", TEXT) "," P("context", FLAG)))) "," P("truncated", FLAG))},
    {"ZoneSets", OBJECT("[\"zones\"]", P("zones", A(OBJECT("[\"name\",\"workspace\",\"cache\",\"readOnly\"]",
        P("name", TEXT) "," P("workspace", FLAG) "," P("cache", FLAG) "," P("readOnly", FLAG)))))},
    {"Written", OBJECT("[\"created\"]", P("created", FLAG))},
    {"Exists", OBJECT("[\"exists\"]", P("exists", FLAG))},
    {"NameList", OBJECT("[\"names\"]", P("names", A(TEXT)))},
    {"RealPath", OBJECT("[\"path\"]", P("path", TEXT))},
    {"Count", OBJECT("[\"count\"]", P("count", WHOLE))},
    {"SignedUrl", OBJECT("[\"url\",\"expiresAt\"]",
        P("url", JSON({"type": "string", "description": "Full URL: scheme, host, path and signature"})) ","
        P("expiresAt", DATE))},
    {"Port", OBJECT("[\"port\",\"public\",\"path\"]", PORT_MEMBERS)},
    {"Ports", OBJECT("[\"ports\"]", P("ports", A(R("Port"))))},
    {"PortToken", OBJECT("[\"token\",\"expiresAt\",\"port\",\"path\"]",
        P("token", TEXT) "," P("expiresAt", DATE) ","
        P("openUrl", JSON({"type": "string", "description": "For a browser, including the token"})) ","
        PORT_MEMBERS)},
    {"Session", OBJECT("[\"id\",\"state\",\"createdAt\"]",
        P("id", TEXT) "," P("name", MAYBE) ","
        P("state", JSON({"type": "string", "enum": ["dormant", "active"]})) "," P("tier", TEXT) ","
        P("runtime", MAYBE) "," P("region", TEXT) ","
        P("sandbox", MAYBE) "," P("volume", MAYBE) "," P("warm", FLAG) "," P("idleMs", WHOLE) ","
        P("volumeTtlMs", JSON({"type": "integer", "description": "How long its volume is kept after its last use; 0: without limit"})) ","
        P("volumeExpiresAt", JSON({"type": ["string", "null"], "format": "date-time", "description": "null: never, or the volume is in use"})) ","
        P("createdAt", DATE) "," P("activeAt", DATE) "," P("volumeExpiredAt", MAYBE))},
    {"ToolList", OBJECT("[\"tools\",\"systemPrompt\"]",
        P("tools", A("{\"description\":\"In the shape that the query's format names: json and mcp, openai, anthropic\",\"anyOf\":["
            OBJECT("[\"name\",\"inputSchema\"]", TOOL_NAMES "," P("title", TEXT) "," P("inputSchema", SCHEMA) ","
                P("outputSchema", SCHEMA) "," P("annotations", OBJECT("[]", P("title", TEXT) "," P("readOnlyHint", FLAG) ","
                P("destructiveHint", FLAG) "," P("idempotentHint", FLAG) "," P("openWorldHint", FLAG)))) ","
            OBJECT("[\"type\",\"function\"]", P("type", TEXT) ","
                P("function", OBJECT("[\"name\",\"parameters\"]", TOOL_NAMES "," P("parameters", SCHEMA)))) ","
            OBJECT("[\"name\",\"input_schema\"]", TOOL_NAMES "," P("input_schema", SCHEMA)) "]}")) ","
        P("systemPrompt", TEXT))},
    {"ToolAnswer", OBJECT("[\"isError\",\"answer\",\"images\"]",
        P("isError", FLAG) "," P("answer", JSON({"type": ["object", "null"], "additionalProperties": true,
            "description": "As the outputSchema of the tool describes"})) ","
        P("images", A(OBJECT("[\"mimeType\",\"data\"]", P("mimeType", TEXT) "," P("data", TEXT)))))},
    {"SessionList", LIST("sessions", "Session")},
    {"ModuleList", OBJECT("[\"modules\"]", P("modules", A(OBJECT("[\"path\",\"source\"]",
        P("path", TEXT) "," P("source", TEXT) "," P("description", MAYBE) ","
        P("exports", A(TEXT)) "," P("usage", MAYBE) ","
        P("scope", JSON({"type": "string", "enum": ["session", "user"]})) "," P("updatedAt", DATE)))))},
    {"DocsSource", OBJECT("[\"id\",\"kind\",\"location\",\"state\",\"configured\",\"pages\",\"chunks\",\"vectors\"]",
        P("id", TEXT) "," P("kind", JSON({"type": "string", "enum": ["url", "upload", "directory", "package"]})) ","
        P("package", MAYBE) "," P("location", TEXT) ","
        P("state", JSON({"type": "string", "enum": ["waiting", "ready", "failed"]})) ","
        P("error", MAYBE) "," P("configured", FLAG) "," P("pages", WHOLE) "," P("chunks", WHOLE) ","
        P("vectors", WHOLE) "," P("createdAt", DATE) "," P("checkedAt", DATE))},
    {"DocsSourceList", LIST("sources", "DocsSource")},
    {"DocsResults", OBJECT("[\"results\",\"total\",\"mode\"]",
        P("results", A(OBJECT("[\"type\",\"id\",\"heading\",\"content\",\"excerpt\",\"package\",\"url\",\"page\",\"score\"]",
            P("type", JSON({"type": "string", "enum": ["doc", "module"]})) "," P("id", TEXT) ","
            P("heading", TEXT) "," P("content", TEXT) "," P("excerpt", TEXT) "," P("package", TEXT) ","
            P("url", TEXT) "," P("page", WHOLE) ","
            P("score", JSON({"type": "number", "minimum": 0, "maximum": 1})) ","
            P("description", MAYBE) "," P("exports", A(TEXT)) ","
            P("before", TEXT) "," P("after", TEXT)))) ","
        P("total", WHOLE) "," P("mode", JSON({"type": "string", "enum": ["keyword", "hybrid"]})) ","
        P("corrected", MAYBE))},
    {"DocsPage", OBJECT("[\"page\",\"url\",\"title\",\"text\"]",
        P("page", WHOLE) "," P("url", TEXT) "," P("title", TEXT) "," P("text", TEXT) ","
        P("updatedAt", DATE))},
    {"Snapshot", OBJECT("[\"id\",\"state\",\"source\",\"createdAt\"]",
        P("id", TEXT) "," P("slug", MAYBE) "," P("tier", TEXT) ","
        P("state", JSON({"type": "string", "enum": ["building", "ready", "failed"]})) ","
        P("source", TEXT) "," P("detail", MAYBE) "," P("createdAt", DATE) ","
        P("sizeBytes", WHOLE) "," P("users", WHOLE) ","
        P("packages", JSON({"type": "array", "description": "For a snapshot of dependencies: what the build installed",
            "items": {"type": "object", "required": ["package", "version", "importable", "isolate"], "properties": {
            "package": {"type": "string"}, "version": {"type": "string"},
            "importable": {"type": "boolean", "description": "Importable in Node or Python"}, "reason": {"type": ["string", "null"]},
            "isolate": {"type": "boolean", "description": "Importable in an isolate"}, "isolateReason": {"type": ["string", "null"]}}}})))},
    {"SnapshotList", LIST("snapshots", "Snapshot")},
    {"Volume", OBJECT("[\"id\",\"createdAt\"]",
        P("id", TEXT) "," P("name", MAYBE) "," P("session", MAYBE) "," P("region", TEXT) ","
        P("tier", TEXT) "," P("capacityMb", WHOLE) "," P("ttlMs", WHOLE) "," P("metadata", LABELS) "," P("createdAt", DATE) ","
        P("usedAt", DATE) "," P("expiresAt", DATE) "," P("sandbox", MAYBE) "," P("fence", WHOLE))},
    {"VolumeList", LIST("volumes", "Volume")},
    {"DiskUse", OBJECT("[\"items\",\"totalBytes\"]", P("items", A(OBJECT("[\"kind\",\"bytes\"]",
        P("kind", TEXT) "," P("id", MAYBE) "," P("name", MAYBE) "," P("state", MAYBE) ","
        P("bytes", WHOLE)))) "," P("totalBytes", WHOLE))},
    {"Approval", OBJECT("[\"id\",\"kind\",\"subject\",\"digest\",\"title\",\"status\",\"requestedAt\",\"expiresAt\"]",
        P("id", TEXT) ","
        P("kind", JSON({"type": "string", "description": "custom: requested by a program"})) ","
        P("subject", JSON({"type": "string", "description": "What it is about; the decision must name it"})) ","
        P("digest", JSON({"type": "string", "description": "Hash of exactly what is approved"})) ","
        P("title", TEXT) "," P("detail", JSON({"description": "A JSON value; the kind decides its members"})) ","
        P("status", JSON({"type": "string", "enum": ["pending", "approved", "used", "rejected", "expired", "void"]})) ","
        P("sandbox", MAYBE) ","
        P("requestedBy", JSON({"type": ["string", "null"], "description": "Name of the token, or its id"})) ","
        P("requestedByToken", JSON({"type": ["string", "null"], "description": "Id of the token"})) ","
        P("requestedAt", DATE) "," P("expiresAt", DATE) ","
        P("decidedBy", JSON({"type": ["string", "null"], "description": "Name of the token, or its id"})) ","
        P("decidedByToken", JSON({"type": ["string", "null"], "description": "Id of the token"})) ","
        P("decidedAt", DATE) ","
        P("note", JSON({"type": ["string", "null"], "description": "From the person who decided"})) ","
        P("reason", JSON({"type": ["string", "null"], "description": "Why it is void"})) ","
        P("endedAt", JSON({"type": ["string", "null"], "format": "date-time",
            "description": "When it was used or rejected, expired or became void"})))},
    {"ApprovalList", LIST("approvals", "Approval")},
    {"Token", OBJECT("[\"id\",\"tenant\",\"scopes\"]", TOKEN_MEMBERS)},
    {"NewToken", OBJECT("[\"id\",\"tenant\",\"scopes\",\"token\"]", TOKEN_MEMBERS ","
        P("token", JSON({"type": "string", "description": "The token itself; returned only here"})))},
    {"TokenList", OBJECT("[\"tokens\"]", P("tokens", A(R("Token"))))},
    {0},
};
/* clang-format on */
