// A Berth predicate in C, with no library: all of it follows abi/SPEC.md.
//
// Dedicated keeps nodes that carry the label "dedicated" for the pods that carry
// it with the same value.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define EXPORT(name) __attribute__((export_name(#name))) name

enum { FALSE = 0, OK = 0, FAILED = 1, ASK = 0, ASK_FAILED = 255 };

// What the guest can hold. More is refused in words, never by a trap.
enum { MAX_SLOTS = 16384, MAX_VALUE = 63, MAX_INPUT = 1 << 20 };

static const char label[] = "dedicated";
static const char manifest[] =
    "{\"abi\":1,\"module\":\"c-predicate\",\"version\":\"1.0.0\",\"policies\":[{"
    "\"name\":\"Dedicated\",\"kind\":\"predicate\",\"scope\":\"row\","
    "\"description\":\"Keeps dedicated nodes for the pods of the same label.\","
    "\"reads\":[\"pod.labels\",\"node.labels\"]}]}";
static const char reasons[] = "[{\"text\":\"node is dedicated to other pods\",\"final\":true}]";

// A label's value, and whether there is one.
typedef struct {
  u8 there, size, text[MAX_VALUE];
} value;

static u8 input[MAX_INPUT] __attribute__((aligned(16)));
static struct {
  u8 live;
  value wants;
} rows[MAX_SLOTS];
static u32 slots; // one more than the highest that was told of
static value pod;
static u64 seq; // of the last batch
static u8 verdicts[MAX_SLOTS];
static const char *failure = "";
static volatile u32 at; // the row at hand, for the host to read after a trap

static u32 length(const char *s) {
  u32 n = 0;
  while (s[n]) n++;
  return n;
}

// ---- ranges: address << 32 | length ----

static u64 range(const void *at, u32 size) { return (u64)(u32)at << 32 | size; }

static u32 fail(const char *why) {
  failure = why;
  return FAILED;
}

// ---- FlatBuffers, read in place; SPEC.md, "Reading a record by hand" ----

typedef struct __attribute__((packed)) { int v; } i32_at;
typedef struct __attribute__((packed)) { u32 v; } u32_at;
typedef struct __attribute__((packed)) { u64 v; } u64_at;
typedef struct __attribute__((packed)) { unsigned short v; } u16_at;
#define AT(type, p) (((const type *)(p))->v)

static const u8 *follow(const u8 *p) { return p + AT(u32_at, p); }

// field is where a table's field lies, 0 if it is absent.
static const u8 *field(const u8 *table, u32 number) {
  const u8 *vtable = table - AT(i32_at, table);
  u32 entry = 4 + 2 * number;
  if (entry >= AT(u16_at, vtable)) return 0;
  u32 offset = AT(u16_at, vtable + entry);
  return offset ? table + offset : 0;
}

static const u8 *child(const u8 *table, u32 number) {
  const u8 *p = table ? field(table, number) : 0;
  return p ? follow(p) : 0;
}

static u32 count(const u8 *vector) { return vector ? AT(u32_at, vector) : 0; }
static const u8 *item(const u8 *vector, u32 i) { return follow(vector + 4 + 4 * i); }

static int same(const u8 *string, const char *text) {
  u32 n = count(string);
  if (n != length(text)) return FALSE;
  for (u32 i = 0; i < n; i++)
    if (string[4 + i] != (u8)text[i]) return FALSE;
  return 1;
}

// KV: 0 key, 1 value. A value beyond 63 bytes is no label of Kubernetes.
static value look_up(const u8 *pairs) {
  value v = {0};
  for (u32 i = 0; i < count(pairs); i++) {
    const u8 *kv = item(pairs, i), *text;
    if (!same(child(kv, 0), label)) continue;
    text = child(kv, 1);
    v.there = 1;
    v.size = count(text) > MAX_VALUE ? MAX_VALUE : count(text);
    for (u32 k = 0; k < v.size; k++) v.text[k] = text[4 + k];
  }
  return v;
}

// ---- the exports ----

void EXPORT(_initialize)(void) {}
void EXPORT(berth_abi_v1)(void) {}
u64 EXPORT(berth_manifest)(void) { return range(manifest, sizeof manifest - 1); }
u64 EXPORT(berth_error)(void) { return range(failure, length(failure)); }
u32 EXPORT(berth_at)(void) { return (u32)&at; }
u32 EXPORT(berth_input)(u32 size) { return size > MAX_INPUT ? 0 : (u32)input; }

// The setting would stand under "config", and there is none to be had.
u32 EXPORT(berth_open)(u32 size) {
  static const char key[] = "\"config\"";
  for (u32 i = 0; i + length(key) <= size; i++) {
    u32 k = 0;
    while (key[k] && input[i + k] == (u8)key[k]) k++;
    if (!key[k]) return fail("Dedicated takes no settings");
  }
  return OK;
}

// Delta: 0 kind, 1 slot, 2 name, 3 labels. Kinds: 0 RowUpsert, 1 RowRemove.
static u32 apply(const u8 *delta) {
  const u8 *kind = field(delta, 0), *at = field(delta, 1), *name = field(delta, 2), *labels = child(delta, 3);
  u32 slot = at ? AT(u32_at, at) : 0;
  if (kind && *kind > 1) return OK;
  if (slot >= MAX_SLOTS) return fail("more nodes than this guest has room for");
  if (kind && *kind == 1) {
    rows[slot].live = 0;
    return OK;
  }
  if (!name && !rows[slot].live) return fail("a change of a row that is not there");
  rows[slot].live = 1;
  if (name || labels) rows[slot].wants = look_up(child(labels, 0));
  if (slot >= slots) slots = slot + 1;
  return OK;
}

// Batch: 0 seq, 1 deltas.
u32 EXPORT(berth_apply)(u32 size) {
  const u8 *batch = follow(input), *deltas = child(batch, 1), *number = field(batch, 0);
  (void)size;
  for (u32 i = 0; i < count(deltas); i++)
    if (apply(item(deltas, i)) != OK) return FAILED;
  seq = number ? AT(u64_at, number) : 0;
  return OK;
}

// PodInput: 0 seq, 1 now, 2 pod. Pod: 4 labels.
u64 EXPORT(berth_pod)(u32 size) {
  const u8 *in = follow(input), *number = field(in, 0);
  (void)size;
  if ((number ? AT(u64_at, number) : 0) != seq) {
    fail("the pod's sequence is not that of the last batch");
    return ASK_FAILED;
  }
  pod = look_up(child(child(in, 2), 4));
  return ASK;
}

// 0 admits, 1 is the first and only entry of the table of reasons.
static u8 verdict(u32 slot) {
  const value *wants = &rows[slot].wants;
  if (!rows[slot].live || !wants->there) return 0;
  if (!pod.there || pod.size != wants->size) return 1;
  for (u32 i = 0; i < pod.size; i++)
    if (pod.text[i] != wants->text[i]) return 1;
  return 0;
}

u64 EXPORT(berth_filter)(u32 size) {
  u32 n = size ? size / 4 : slots;
  if (n > MAX_SLOTS) {
    fail("more rows than this guest has room for");
    return 0;
  }
  for (u32 i = 0; i < n; i++) {
    u32 slot = at = size ? AT(u32_at, input + 4 * i) : i;
    if (slot >= slots) {
      fail("a row that this guest was not told of");
      return 0;
    }
    verdicts[i] = verdict(slot);
  }
  return range(verdicts, n);
}

u64 EXPORT(berth_reasons)(u32 from) {
  return from > 1 ? range("[]", 2) : range(reasons, sizeof reasons - 1);
}
