/* Which token is whose, and until when. */
#include "tests/unit/agent/story.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

static int authorize(struct story *s, uint64_t uid, const char *token, bool old_ok)
{
    struct worker_key key = KEY("j", uid);
    return agent_core_authorize(s->core, &key, token, old_ok, NULL);
}

Test(agent_tokens, tokens_of_this_and_the_generation_before)
{
    struct story s = story_begin();
    story_join(&s);
    cr_expect_eq(authorize(&s, 1, "token-1-1", false), 0);
    cr_expect_eq(authorize(&s, 1, "token-1-11", true), E_UNAUTHENTICATED);
    cr_expect_eq(authorize(&s, 1, "token-1-", true), E_UNAUTHENTICATED);
    cr_expect_eq(authorize(&s, 1, "", true), E_UNAUTHENTICATED);
    cr_expect_eq(authorize(&s, 2, "token-2-1", true), E_NOT_FOUND);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    cr_expect_eq(authorize(&s, 1, "token-1-1", false), E_ABORTED);
    cr_expect_eq(authorize(&s, 1, "token-1-1", true), 0);
    cr_expect_eq(authorize(&s, 1, "token-1-2", false), 0);
    happen(&s, ABOUT(JOIN, 1, .request = 3, .deadline_ms = 60000,
                     .join = {.generation = 2, .endpoint = "e"}));
    desire(&s, &(struct want){.uid = 1, .generation = 2, .formed = true}, 1);
    cr_expect_eq(authorize(&s, 1, "token-1-1", true), 0, "it may not have heard that it is over");
    cr_expect_eq(authorize(&s, 1, "token-1-1", false), E_ABORTED);
    story_end(&s);
}

Test(agent_tokens, who_starts_while_its_generation_is_overtaken_may_say_hello)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    desire(&s, &(struct want){.uid = 1, .generation = 1}, 1);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    cr_expect_eq(authorize(&s, 1, "token-1-1", true), 0);
    story_end(&s);
}

Test(agent_tokens, a_found_worker_may_speak_before_the_coordinator_does)
{
    struct story s = story_begin();
    struct worker_found found = {.key = KEY("j", 1), .pid = 42};
    strcpy(found.memory.tokens[0], "token-1-4");
    happen(&s, EVENT(FOUND, .found = &found));
    cr_expect_eq(authorize(&s, 1, "token-1-4", false), 0);
    cr_expect_eq(authorize(&s, 1, "other", false), E_UNAVAILABLE);
    cr_expect_eq(authorize(&s, 2, "other", false), E_UNAVAILABLE);
    EXPECT(s, ABOUT(HELLO, 1, .request = 3), "refuse#3(UNAVAILABLE)");
    story_end(&s);
}

Test(agent_tokens, a_token_says_whose_it_is)
{
    struct story s = story_begin();
    struct worker_key key;
    cr_expect_eq(agent_core_identify(s.core, "token-1-1", &key, NULL), E_UNAVAILABLE);
    story_join(&s);
    cr_expect_eq(agent_core_identify(s.core, "token-1-1", &key, NULL), 0);
    cr_expect_eq(key.uid, 1);
    cr_expect_eq(agent_core_identify(s.core, "token-2-1", &key, NULL), E_UNAUTHENTICATED);
    cr_expect_eq(agent_core_identify(s.core, "", &key, NULL), E_UNAUTHENTICATED);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    cr_expect_eq(agent_core_identify(s.core, "token-1-1", &key, NULL), 0);
    cr_expect_eq(agent_core_identify(s.core, "token-1-2", &key, NULL), 0);
    story_end(&s);
}
