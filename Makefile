# Hedge. `make` builds ./hedge, `make demo` shows it at work, `make test` tests it.
# Every .c under src/ belongs to the library but src/cli/ (the binary); kernels under
# src/backend/cpu/kern/ are compiled once per instruction set. Tests and fuzzers are found by
# name: tests/unit/test_*.c, tests/fuzz/fuzz_*.c.

ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX  ?= /usr/local
MODE    ?= release
BUILD   := build/$(MODE)
ARCH    := $(shell uname -m)

WARN    := -Wall -Wno-format-truncation -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wundef
CFLAGS_release := -O2 -g
CFLAGS_asan    := -O1 -g -DHG_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
BASE_CFLAGS := -std=c11 -D_GNU_SOURCE $(WARN) $(if $(CI),-Werror) -Iinclude -Isrc -MMD -MP \
               -fno-math-errno -ffp-contract=off $(CFLAGS_$(MODE)) $(CFLAGS) \
               -DHG_PREFIX='"$(PREFIX)"'
LDFLAGS_asan := -fsanitize=address,undefined
LDLIBS  := -ljansson -levent_core -lpcre2-8 -lutf8proc -lxxhash \
           -lcurl -lpthread -lm
CHECK_PKGS := tools/deps.sh

# Instruction-set variants of the CPU kernels: name and flags. ffp-contract: kernels ask for
# fused multiply-add by name, so that one row and many rows round alike.
ISAS_x86_64 := portable avx2
ISAS        := $(or $(ISAS_$(ARCH)),portable)
ISA_portable := -O3 -Wno-psabi
ISA_avx2     := -O3 -mavx2 -mfma -mf16c -mbmi2

KERN    := $(wildcard src/backend/cpu/kern/*.c)
SRC     := $(filter-out $(KERN),$(wildcard src/*/*.c src/backend/*/*.c))
LIB_SRC := $(filter-out src/cli/%,$(SRC))
CLI_SRC := $(wildcard src/cli/*.c)
obj      = $(patsubst %.c,$(BUILD)/%.o,$(1))
KERN_OBJ := $(foreach i,$(ISAS),$(patsubst %.c,$(BUILD)/%.$(i).o,$(KERN)))
LIB_OBJ := $(call obj,$(LIB_SRC)) $(KERN_OBJ)
TESTS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TEST_LIB := $(call obj,$(wildcard tests/lib/*.c))

.PHONY: all deps demo test check style asan unit fuzz oracles install clean bench
.SECONDARY:
all: deps $(BUILD)/hedge
	@ln -sf $(BUILD)/hedge hedge

deps:
	@$(CHECK_PKGS)

$(BUILD)/libhedge.a: $(LIB_OBJ)
	@rm -f $@; $(AR) rcs $@ $^
$(BUILD)/hedge: $(call obj,$(CLI_SRC)) $(BUILD)/libhedge.a
	@echo "  LINK  $@"; $(CC) $(LDFLAGS_$(MODE)) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(TEST_LIB) $(BUILD)/libhedge.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"; $(CC) $(LDFLAGS_$(MODE)) -o $@ $^ -lcmocka $(LDLIBS)

$(BUILD)/%.o: %.c | deps
	@mkdir -p $(@D)
	@echo "  CC    $<"; $(CC) $(BASE_CFLAGS) -c -o $@ $<
define ISA_RULE
$(BUILD)/src/backend/cpu/kern/%.$(1).o: src/backend/cpu/kern/%.c | deps
	@mkdir -p $$(@D)
	@echo "  CC    $$< ($(1))"; $$(CC) $$(BASE_CFLAGS) $$(ISA_$(1)) $(if $(filter asan fuzz,$(MODE)),-O1) -DHG_ISA=$(1) -DHG_ISA_$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))

demo: all
	@tools/demo.sh

test: all $(TESTS)
	@tools/run_tests.sh $(BUILD)/tests tests/api
check: test style
	@$(MAKE) --no-print-directory asan
	@$(MAKE) --no-print-directory oracles
style:
	@tools/check_style.sh
asan:
	@$(MAKE) --no-print-directory MODE=asan unit
unit: deps $(TESTS) $(BUILD)/hedge
	@tools/run_tests.sh $(BUILD)/tests
oracles: all
	@tools/oracles.sh
bench: all
	@tools/bench.sh

# make fuzz [SECONDS_EACH=600] [FUZZ=fuzz_template]
SECONDS_EACH ?= 60
FUZZ ?= $(FUZZERS)
fuzz: deps
	@$(MAKE) --no-print-directory MODE=fuzz CC=clang-19 $(FUZZ:%=build/fuzz/bin/%)
	@tools/run_fuzz.sh $(SECONDS_EACH) $(FUZZ)
build/fuzz/bin/%: build/fuzz/tests/fuzz/%.o build/fuzz/libhedge.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"; $(CC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS)

install: all
	install -D -m 755 $(BUILD)/hedge $(DESTDIR)$(PREFIX)/bin/hedge
	mkdir -p $(DESTDIR)$(PREFIX)/share/hedge
	cp -r models/nano models/presets $(DESTDIR)$(PREFIX)/share/hedge/
clean:
	rm -rf build hedge

-include $(shell find build -name '*.d' 2>/dev/null)
