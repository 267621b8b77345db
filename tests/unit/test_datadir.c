/* The search order of base/datadir.h, over trees made in a temporary directory. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/datadir.h"
#include "base/file.h"

static char root[] = "/tmp/hedge-datadir-XXXXXX";

/* Makes all directories of root/path, and an empty file at its end unless it ends in '/'. */
static void make(const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        mkdir(full, 0700);
        *p = '/';
    }
    if (full[strlen(full) - 1] != '/') fclose(fopen(full, "w"));
}

/* The path found from root/exe_dir, relative to root; NULL when none. */
static const char *find(const char *exe_dir, const char *name)
{
    static char real[PATH_MAX];
    char exe[256], prefix[256], buf[1024];
    snprintf(exe, sizeof exe, "%s/%s", root, exe_dir);
    snprintf(prefix, sizeof prefix, "%s/prefix", root);
    if (!hg_data_path_from(exe, prefix, name, buf, sizeof buf)) return NULL;
    assert_non_null(realpath(buf, real));
    return real + strlen(root) + 1;
}

static void search_order(void **state)
{
    (void)state;
    make("src/build/release/tests/");
    make("src/models/nano/");
    assert_null(find("src/build/release", "nano")); /* no include/hedge.h: not our tree */
    make("src/include/hedge.h");
    assert_string_equal(find("src/build/release", "nano"), "src/models/nano");
    assert_string_equal(find("src/build/release/tests", "nano"), "src/models/nano");
    assert_null(find("src/build/release", "presets"));

    make("prefix/share/hedge/presets/");
    make("opt/bin/");
    assert_string_equal(find("opt/bin", "presets"), "prefix/share/hedge/presets");
    make("opt/share/hedge/presets/");
    assert_string_equal(find("opt/bin", "presets"), "opt/share/hedge/presets");
    make("opt/bin/models/presets/");
    assert_string_equal(find("opt/bin", "presets"), "opt/bin/models/presets");
}

static void short_buffer(void **state)
{
    (void)state;
    char buf[8];
    assert_false(hg_data_path_from("/a/rather/long/directory", "/p", "nano", buf, sizeof buf));
}

/* This program lies in build/<mode>/tests of the source tree. */
static void own_tree(void **state)
{
    (void)state;
    char buf[PATH_MAX];
    if (!hg_data_path("nano", buf, sizeof buf)) {
        print_message("skip: the test program lies outside a source tree\n");
        return;
    }
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/config.json", buf);
    assert_true(hg_file_exists(file));
    assert_false(hg_data_path("no-such-data", buf, sizeof buf));
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", root);
    return system(cmd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_order),
        cmocka_unit_test(short_buffer),
        cmocka_unit_test(own_tree),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
