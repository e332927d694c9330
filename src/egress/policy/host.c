#include "egress/policy/host.h"

#include <idn2.h>

#include "base/err.h"

void host_show(struct str text, char out[HOST_SHOWN_SIZE])
{
    size_t len = MIN(text.len, (size_t)HOST_SHOWN_SIZE - 4);
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(text.ptr[i] >= 0x20 && text.ptr[i] < 0x7f ? text.ptr[i] : '?');
    (void)snprintf(out + len, HOST_SHOWN_SIZE - len, "%s", len < text.len ? "..." : "");
}

static int host_refuse(struct err *err, struct str text, const char *why)
{
    char shown[HOST_SHOWN_SIZE];
    host_show(text, shown);
    return err_set(err, ERR_INVALID, "host '%s': %s", shown, why);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || char_is_digit(c) || c == '-' || c == '_';
}

static const char *wrong_char(char c)
{
    if (c == '\0')
        return "a NUL byte";
    if (c == '%')
        return "a host cannot contain a percent sign";
    if (c == '[' || c == ']')
        return "brackets are for IPv6 addresses";
    if ((unsigned char)c > 0x7e)
        return "write international names as xn-- labels";
    if ((unsigned char)c < 0x21)
        return "a host cannot contain blanks or control characters";
    return "a host has only letters, digits, '-', '_' and '.'";
}

/* What the label says must be what IDNA makes of it again, or two spellings would name one host. */
static bool is_a_label(struct str label)
{
    char text[64];
    memcpy(text, label.ptr, label.len);
    text[label.len] = '\0';
    char *unicode = NULL;
    uint8_t *again = NULL;
    bool good = idn2_to_unicode_8z8z(text, &unicode, 0) == IDN2_OK && strcmp(unicode, text) != 0 &&
                idn2_lookup_u8((const uint8_t *)unicode, &again,
                               IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) == IDN2_OK &&
                strcmp((const char *)again, text) == 0;
    idn2_free(unicode);
    idn2_free(again);
    return good;
}

static const char *label_fault(struct str label)
{
    if (label.len == 0)
        return "an empty label";
    if (label.len > 63)
        return "a label of more than 63 bytes";
    if (label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
        return "a label begins or ends with '-'";
    bool is_marked = label.len >= 4 && label.ptr[2] == '-' && label.ptr[3] == '-';
    if (is_marked && !(str_starts(label, STR("xn--")) && is_a_label(label)))
        return "a label that is not a valid international one";
    return NULL;
}

/* "7", "0x7f", "0x": the last label of a name that a lenient resolver would take for a number. */
static bool is_numeric_label(struct str label)
{
    bool is_hex = str_starts(label, STR("0x"));
    for (size_t i = is_hex ? 2 : 0; i < label.len; i++)
        if (!char_is_digit(label.ptr[i]) && !(is_hex && label.ptr[i] >= 'a' && label.ptr[i] <= 'f'))
            return false;
    return true;
}

static int parse_bracketed(struct str text, struct host *ret_host, struct err *err)
{
    struct host host = {0};
    struct str inside = str_slice(text, 1, text.len - 1);
    if (text.len < 4 || text.ptr[text.len - 1] != ']' || !ip_parse(inside, &host.ip) ||
        host.ip.version != 6)
        return host_refuse(err, text, "not an IPv6 address in brackets, without a zone");
    char plain[IP_TEXT_SIZE];
    ip_format(&host.ip, plain);
    (void)snprintf(host.text, sizeof host.text, "[%s]", plain);
    *ret_host = host;
    return 0;
}

/* Lower case, and no byte that is no name's. */
static int copy_name(struct str name, struct str text, char out[HOST_TEXT_SIZE], struct err *err)
{
    if (name.len == 0)
        return host_refuse(err, text, "empty");
    if (name.len > HOST_LEN_MAX)
        return host_refuse(err, text, "more than 253 bytes");
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        if (out[i] != '.' && !is_name_char(out[i]))
            return host_refuse(err, text, wrong_char(c));
    }
    out[name.len] = '\0';
    return 0;
}

int host_parse(struct str text, struct host *ret_host, struct err *err)
{
    if (text.len > 0 && text.ptr[0] == '[')
        return parse_bracketed(text, ret_host, err);
    bool dotted = text.len > 1 && text.ptr[text.len - 1] == '.';
    struct str name = dotted ? str_slice(text, 0, text.len - 1) : text;
    struct host host = {0};
    if (copy_name(name, text, host.text, err) < 0)
        return -1;
    struct str rest = host_str(&host), label, last = {0};
    while (str_split(&rest, '.', &label)) {
        const char *fault = label_fault(label);
        if (fault != NULL)
            return host_refuse(err, text, fault);
        last = label;
    }
    if (is_numeric_label(last) && (dotted || !ip_parse(host_str(&host), &host.ip)))
        return host_refuse(err, text,
                           "looks like an address; write it as four plain decimal numbers");
    *ret_host = host;
    return 0;
}

bool host_is_below(struct str host, struct str parent)
{
    return host.len > parent.len + 1 && str_ends(host, parent) &&
           host.ptr[host.len - parent.len - 1] == '.';
}

bool host_is_localhost(const struct host *host)
{
    return strcmp(host->text, "localhost") == 0 || str_ends(host_str(host), STR(".localhost"));
}
