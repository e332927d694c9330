/* Any text: a policy whose canonical form is its own, or one line that says what is wrong. What a
 * user may write, an operator may too; and nothing is allowed that none of its entries names. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "egress/policy/verdict.h"

static void check_canonical(const struct policy *policy)
{
    struct err err = {0};
    AUTO_POLICY struct policy *again = NULL;
    AUTO_BUF struct buf first = {0}, second = {0};
    policy_put(policy, &first);
    int result = policy_parse(buf_str(&first), POLICY_BY_OPERATOR, &again, &err);
    assert(result == 0 || err.code == ERR_TOO_LARGE); /* JSON is terser than text at the limit */
    if (result < 0)
        return;
    policy_put(again, &second);
    assert(str_eq(buf_str(&first), buf_str(&second)) && again->mode == policy->mode);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    struct err err = {0};
    struct url url;
    AUTO_POLICY struct policy *policy = NULL, *users = NULL;
    bool is_users = policy_parse(text, POLICY_BY_USER, &users, &err) == 0;
    if (policy_parse(text, POLICY_BY_OPERATOR, &policy, &err) < 0) {
        assert(!is_users && err.code != ERR_FORBIDDEN && strpbrk(err.msg, "\r\n") == NULL);
        return 0;
    }
    check_canonical(policy);
    struct verdict verdict = verdict_judge_url(policy, STR("GET"), STR("https://a.test/v1/"), &url);
    assert(!verdict_is_allowed(&verdict) || policy->mode != POLICY_NONE);
    verdict = verdict_judge_url(policy, STR("GET"), STR("http://127.0.0.1/"), &url);
    assert(!verdict_is_allowed(&verdict) || policy->private.len > 0);
    return 0;
}
