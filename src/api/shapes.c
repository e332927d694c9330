#include "api/shapes.h"

#include "api/route.h"

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
    P("id", TEXT) "," P("name", MAYBE) "," P("createdAt", DATE))

#define COMMAND_MEMBERS \
    P("id", TEXT) "," P("sandbox", TEXT) "," P("argv", A(TEXT)) "," P("command", MAYBE) "," \
    P("cwd", TEXT) "," P("tty", FLAG) "," \
    P("state", JSON({"type": "string", "enum": ["running", "ended"]})) "," \
    P("startedAt", DATE) "," P("endedAt", DATE) "," \
    P("exitCode", JSON({"type": ["integer", "null"]})) "," \
    P("signal", JSON({"type": ["integer", "null"]})) "," \
    P("end", JSON({"type": ["string", "null"], "description": "Why it ended"})) "," \
    P("wallMs", JSON({"type": "number"})) "," \
    P("logEnd", JSON({"type": "integer", "description": "Offset behind the log's last byte"})) "," \
    P("truncated", FLAG)

#define TOKEN_MEMBERS \
    P("id", TEXT) "," P("name", MAYBE) "," P("tenant", TEXT) "," P("scopes", A(TEXT)) "," \
    P("createdAt", DATE) "," P("expiresAt", DATE) "," P("ratePerMinute", WHOLE) "," \
    P("quota", OBJECT("[]", P("sandboxes", WHOLE) "," P("memoryMb", WHOLE) "," P("diskMb", WHOLE)))

#define PORT_MEMBERS \
    P("port", WHOLE) "," P("public", FLAG) "," \
    P("url", JSON({"type": ["string", "null"], "description": "By host name, where server.domain is set"})) "," \
    P("path", JSON({"type": "string", "description": "Below the server's address"})) "," \
    P("createdAt", DATE)

const struct shape api_shapes[] = {
    {"Error", OBJECT("[\"error\"]", P("error", OBJECT("[\"code\",\"message\",\"requestId\"]",
        P("code", JSON({"type": "string", "description": "From one table; programs may rely on it"})) ","
        P("message", JSON({"type": "string", "description": "What is wrong and the way out"})) ","
        P("path", JSON({"type": "string", "description": "The file or member it is about"})) ","
        P("requestId", TEXT))))},
    {"Event", OBJECT("[\"event\"]", P("event", TEXT) "," P("id", TEXT) "," P("data", "{}"))},
    {"Sandbox", OBJECT("[\"id\",\"tier\",\"runtime\",\"state\",\"createdAt\"]",
        P("id", TEXT) "," P("name", MAYBE) ","
        P("tier", JSON({"type": "string", "enum": ["jail", "isolate", "memory"]})) ","
        P("runtime", TEXT) ","
        P("state", JSON({"type": "string", "enum": ["creating", "running", "pausing", "paused",
            "resuming", "stopping", "stopped", "failed", "interrupted"]})) ","
        P("reason", MAYBE) "," P("session", MAYBE) "," P("volume", MAYBE) ","
        P("forkedFrom", MAYBE) "," P("snapshots", A(TEXT)) "," P("metadata", LABELS) ","
        P("limits", OBJECT("[]", P("memoryMb", WHOLE) "," P("diskMb", WHOLE) ","
            P("cpus", JSON({"type": "number"})) "," P("pids", WHOLE) "," P("execMs", WHOLE) ","
            P("netConnections", WHOLE) "," P("netBytesPerSecond", WHOLE) ","
            P("netBytesTotal", WHOLE) "," P("netIdleMs", WHOLE) "," P("netTotalMs", WHOLE) ","
            P("netHeadBytes", WHOLE) "," P("netAnswerBytes", WHOLE))) ","
        P("network", TEXT) ","
        P("secrets", A(OBJECT("[\"name\",\"hosts\"]", P("name", TEXT) "," P("config", MAYBE) ","
            P("hosts", A(TEXT)) "," P("headers", A(TEXT))))) "," P("timeoutMs", WHOLE) "," P("idleMs", WHOLE) ","
        P("onTimeout", JSON({"type": "string", "enum": ["pause", "kill"]})) ","
        P("createdAt", DATE) "," P("startedAt", DATE) "," P("activeAt", DATE) ","
        P("endedAt", DATE) "," P("expiresAt", DATE) "," P("checkpoints", A(R("Checkpoint"))) ","
        P("version", WHOLE))},
    {"Sandboxes", OBJECT("[\"sandboxes\"]", P("sandboxes", A(R("Sandbox"))))},
    {"SandboxList", LIST("sandboxes", "Sandbox")},
    {"Checkpoint", CHECKPOINT},
    {"Command", OBJECT("[\"id\",\"sandbox\",\"state\",\"startedAt\"]", COMMAND_MEMBERS)},
    {"CommandResult", OBJECT("[\"id\",\"sandbox\",\"state\",\"startedAt\"]", COMMAND_MEMBERS ","
        P("stdout", TEXT) "," P("stderr", TEXT) "," P("output", TEXT))},
    {"CommandList", LIST("commands", "Command")},
    {"RunResult", JSON({"type": "object", "description": "What `sandglass run --json` prints"})},
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
        P("url", JSON({"type": "string", "description": "Below the server's address"})) ","
        P("expiresAt", DATE))},
    {"Port", OBJECT("[\"port\",\"public\",\"path\"]", PORT_MEMBERS)},
    {"Ports", OBJECT("[\"ports\"]", P("ports", A(R("Port"))))},
    {"PortToken", OBJECT("[\"token\",\"expiresAt\",\"port\",\"path\"]",
        P("token", TEXT) "," P("expiresAt", DATE) ","
        P("openUrl", JSON({"type": ["string", "null"], "description": "For a browser, token included"})) ","
        PORT_MEMBERS)},
    {"Session", OBJECT("[\"id\",\"state\",\"createdAt\"]",
        P("id", TEXT) "," P("name", MAYBE) ","
        P("state", JSON({"type": "string", "enum": ["dormant", "active"]})) "," P("tier", TEXT) ","
        P("sandbox", MAYBE) "," P("volume", MAYBE) "," P("warm", FLAG) "," P("idleMs", WHOLE) ","
        P("createdAt", DATE) "," P("activeAt", DATE))},
    {"ToolList", OBJECT("[\"tools\",\"systemPrompt\"]",
        P("tools", A("{\"type\":\"object\"}")) "," P("systemPrompt", TEXT))},
    {"ToolAnswer", OBJECT("[\"isError\",\"answer\",\"images\"]",
        P("isError", FLAG) "," P("answer", "{\"type\":\"object\"}") ","
        P("images", A(OBJECT("[\"mimeType\",\"data\"]", P("mimeType", TEXT) "," P("data", TEXT)))))},
    {"SessionList", LIST("sessions", "Session")},
    {"ModuleList", OBJECT("[\"modules\"]", P("modules", A(OBJECT("[\"path\",\"source\"]",
        P("path", TEXT) "," P("source", TEXT) "," P("updatedAt", DATE)))))},
    {"Snapshot", OBJECT("[\"id\",\"state\",\"source\",\"createdAt\"]",
        P("id", TEXT) "," P("slug", MAYBE) "," P("tier", TEXT) ","
        P("state", JSON({"type": "string", "enum": ["building", "ready", "failed"]})) ","
        P("source", TEXT) "," P("detail", MAYBE) "," P("createdAt", DATE) ","
        P("sizeBytes", WHOLE) "," P("users", WHOLE))},
    {"SnapshotList", LIST("snapshots", "Snapshot")},
    {"Volume", OBJECT("[\"id\",\"createdAt\"]",
        P("id", TEXT) "," P("name", MAYBE) "," P("session", MAYBE) "," P("region", TEXT) ","
        P("tier", TEXT) "," P("capacityMb", WHOLE) "," P("ttlMs", WHOLE) "," P("createdAt", DATE) ","
        P("usedAt", DATE) "," P("expiresAt", DATE) "," P("sandbox", MAYBE) "," P("fence", WHOLE))},
    {"VolumeList", LIST("volumes", "Volume")},
    {"Token", OBJECT("[\"id\",\"tenant\",\"scopes\"]", TOKEN_MEMBERS)},
    {"NewToken", OBJECT("[\"id\",\"tenant\",\"scopes\",\"token\"]", TOKEN_MEMBERS ","
        P("token", JSON({"type": "string", "description": "The token itself, told this once"})))},
    {"TokenList", OBJECT("[\"tokens\"]", P("tokens", A(R("Token"))))},
    {0},
};
/* clang-format on */
