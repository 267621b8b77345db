/* bench/iou.h: which programs a command line runs, and the score of two turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench/iou.h"

static struct hg_iou_bag bag(const char *command)
{
    struct hg_iou_bag b = {{0}, 0};
    hg_iou_add(&b, command);
    return b;
}

/* Both command lines run the same programs as often. */
static void assert_same(const char *a, const char *b)
{
    struct hg_iou_bag x = bag(a), y = bag(b);
    if (memcmp(&x, &y, sizeof x) != 0) fail_msg("'%s' and '%s' differ", a, b);
}

static void programs(void **state)
{
    (void)state;
    assert_int_equal(bag("").total, 0);
    assert_int_equal(bag("cd /tmp; pwd; echo hi; unheard-of").total, 0);
    assert_int_equal(bag("grep a b | sort | uniq -c && wc -l || true").total, 5);
    assert_int_equal(bag("cat a & cat b").total, 1); /* a lone & separates nothing */
    assert_same("python3 -m x", "python x");
    assert_same("/usr/bin/Python3.11 x", "python x");
    assert_same("python3.11.4", "python");
    assert_same("rg x\negrep y", "grep x; grep y");
    assert_same("A=1 _B2=x sudo env C=3 less x", "cat x");
    assert_same("1A=x cat", "");
    assert_same("wget u", "curl u");
    assert_same(". venv/bin/activate", "source x");
    assert_same("cat/", "");
}

static void quoting(void **state)
{
    (void)state;
    assert_same("echo 'a | grep b'", "");
    assert_same("grep \"a\\\"; cat\" f", "grep");
    assert_same("sed 's/a/b/' x; echo `ls | wc`", "sed");
    assert_same("grep 'open; cat x", "grep; cat"); /* never closed: not quoted */
    assert_same("cat <<'EOF' > f\ngrep x\nls\nEOF\nsort f", "cat; sort");
    assert_same("cat <<-END\ngrep x\n  END\n", "cat; grep"); /* not at the line's start */
    assert_same("cat <<X\ngrep x\nX y\nls\nX", "cat");
    assert_same("cat << 5\ngrep x\n5", "cat; grep");
}

static void scores(void **state)
{
    (void)state;
    struct hg_iou_bag none = bag(""), a = bag("grep x | head; grep y"), b = bag("grep x | tail");
    assert_true(hg_iou_score(&none, &a) < 0);
    assert_true(hg_iou_score(&a, &a) == 1);
    assert_true(hg_iou_score(&a, &none) == 0);
    assert_true(hg_iou_score(&a, &b) == 1.0 / 4); /* {grep 2, head} and {grep, tail} */
}

static void calls(void **state)
{
    (void)state;
    json_t *list =
        json_loads("[{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}},"
                   "{\"name\":\"bash\",\"arguments\":{\"command\":\"\",\"cmd\":\"cat\"}},"
                   "{\"name\":\"bash\",\"arguments\":null},"
                   "{\"name\":\"other\",\"arguments\":{\"command\":\"ls\"}},"
                   "{\"name\":\"bash\",\"arguments\":{\"command\":5}}, 7]",
                   0, NULL);
    assert_non_null(list);
    struct hg_iou_bag b = {{0}, 0}, want = bag("ls; cat");
    hg_iou_add_calls(&b, list);
    assert_memory_equal(&b, &want, sizeof b);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs),
        cmocka_unit_test(quoting),
        cmocka_unit_test(scores),
        cmocka_unit_test(calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
