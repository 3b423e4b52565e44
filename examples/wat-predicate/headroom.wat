;; A Berth predicate in WebAssembly's own text, with no compiler: all of it
;; follows abi/SPEC.md.
;;
;; Headroom keeps a tenth of each node's memory free of pods' requests, save for
;; pods that request none.
(module
  ;; Where things lie: texts from 8 on; rows from 1024 on, of 16 bytes (one more
  ;; than the memory that pods may request, 0 where there is no node; the memory
  ;; that they do request); verdicts; the input, for which the memory grows.
  (memory (export "memory") 8)
  (global $rows i32 (i32.const 1024))
  (global $most i32 (i32.const 16384))     ;; slots
  (global $verdicts i32 (i32.const 263168))  ;; 1024 + 16 * most
  (global $input i32 (i32.const 279552))     ;; verdicts + most
  (global $slots (mut i32) (i32.const 0))  ;; one more than the highest told of
  (global $seq (mut i64) (i64.const 0))    ;; of the last batch
  (global $wants (mut i64) (i64.const 0))  ;; memory that the pod requests
  (global $failure (mut i64) (i64.const 0)) ;; a range

  (data (i32.const 8) "{\"abi\":1,\"module\":\"wat-predicate\",\"version\":\"1.0.0\",\"policies\":[{\"name\":\"Headroom\",\"kind\":\"predicate\",\"description\":\"Keeps a tenth of each node's memory free.\",\"reads\":[\"pod.requests\",\"node.capacity\",\"node.usage\"]}]}")
  (data (i32.const 512) "[{\"text\":\"node keeps a tenth of its memory free\"}]")
  (data (i32.const 600) "more nodes than this guest has room for")
  (data (i32.const 664) "a change of a row that is not there")
  (data (i32.const 720) "the pod's sequence is not that of the last batch")
  (data (i32.const 784) "a row that this guest was not told of")

  ;; ---- records: 0 stands for what is absent ----

  (func $follow (param $p i32) (result i32)
    (i32.add (local.get $p) (i32.load (local.get $p))))

  ;; field is where a table's field lies.
  (func $field (param $table i32) (param $number i32) (result i32)
    (local $vtable i32) (local $entry i32) (local $offset i32)
    (if (i32.eqz (local.get $table)) (then (return (i32.const 0))))
    (local.set $vtable (i32.sub (local.get $table) (i32.load (local.get $table))))
    (local.set $entry (i32.add (i32.const 4) (i32.shl (local.get $number) (i32.const 1))))
    (if (i32.ge_u (local.get $entry) (i32.load16_u (local.get $vtable))) (then (return (i32.const 0))))
    (local.set $offset (i32.load16_u (i32.add (local.get $vtable) (local.get $entry))))
    (if (i32.eqz (local.get $offset)) (then (return (i32.const 0))))
    (i32.add (local.get $table) (local.get $offset)))

  ;; child is the vector or table at a field.
  (func $child (param $table i32) (param $number i32) (result i32)
    (local $at i32)
    (local.set $at (call $field (local.get $table) (local.get $number)))
    (if (i32.eqz (local.get $at)) (then (return (i32.const 0))))
    (call $follow (local.get $at)))

  (func $int (param $table i32) (param $number i32) (result i32)
    (local $at i32)
    (local.set $at (call $field (local.get $table) (local.get $number)))
    (if (i32.eqz (local.get $at)) (then (return (i32.const 0))))
    (i32.load (local.get $at)))

  (func $long (param $table i32) (param $number i32) (result i64)
    (local $at i32)
    (local.set $at (call $field (local.get $table) (local.get $number)))
    (if (i32.eqz (local.get $at)) (then (return (i64.const 0))))
    (i64.load (local.get $at)))

  ;; memory is that of the struct Amounts at a field, its second number.
  (func $memory (param $table i32) (param $number i32) (result i64)
    (local $at i32)
    (local.set $at (call $field (local.get $table) (local.get $number)))
    (if (i32.eqz (local.get $at)) (then (return (i64.const 0))))
    (i64.load offset=8 (local.get $at)))

  (func $row (param $slot i32) (result i32)
    (i32.add (global.get $rows) (i32.shl (local.get $slot) (i32.const 4))))

  ;; ---- ranges: address << 32 | length ----

  (func $range (param $at i32) (param $size i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32)) (i64.extend_i32_u (local.get $size))))

  (func $fail (param $at i32) (param $size i32) (result i32)
    (global.set $failure (call $range (local.get $at) (local.get $size)))
    (i32.const 1))

  ;; ---- the exports ----

  (func (export "_initialize"))
  (func (export "berth_abi_v1"))
  (func (export "berth_manifest") (result i64) (call $range (i32.const 8) (i32.const 216)))
  (func (export "berth_error") (result i64) (global.get $failure))
  (func (export "berth_open") (param i32) (result i32) (i32.const 0))

  ;; There is room for the input if the memory reaches to its end, or can grow so far.
  (func (export "berth_input") (param $size i32) (result i32)
    (local $lacks i32)
    (local.set $lacks (i32.sub
      (i32.shr_u (i32.add (i32.add (global.get $input) (local.get $size)) (i32.const 65535)) (i32.const 16))
      (memory.size)))
    (if (i32.gt_s (local.get $lacks) (i32.const 0))
      (then (if (i32.eq (memory.grow (local.get $lacks)) (i32.const -1)) (then (return (i32.const 0))))))
    (global.get $input))

  ;; Delta: 0 kind, 1 slot, 2 name, 7 capacity, 8 usage; of both, 0 is an Amounts.
  (func $apply (param $delta i32) (result i32)
    (local $kind i32) (local $slot i32) (local $row i32) (local $group i32)
    (local.set $kind (call $field (local.get $delta) (i32.const 0)))
    (if (local.get $kind) (then (local.set $kind (i32.load8_u (local.get $kind)))))
    (local.set $slot (call $int (local.get $delta) (i32.const 1)))
    (if (i32.gt_u (local.get $kind) (i32.const 1)) (then (return (i32.const 0))))
    (if (i32.ge_u (local.get $slot) (global.get $most)) (then (return (call $fail (i32.const 600) (i32.const 39)))))
    (local.set $row (call $row (local.get $slot)))
    (if (i32.eq (local.get $kind) (i32.const 1)) ;; RowRemove
      (then
        (i64.store (local.get $row) (i64.const 0))
        (return (i32.const 0))))
    (if (i32.ge_u (local.get $slot) (global.get $slots))
      (then (global.set $slots (i32.add (local.get $slot) (i32.const 1)))))
    (if (call $field (local.get $delta) (i32.const 2)) ;; a whole row
      (then
        (i64.store (local.get $row) (i64.const 1))
        (i64.store offset=8 (local.get $row) (i64.const 0))))
    (if (i64.eqz (i64.load (local.get $row))) (then (return (call $fail (i32.const 664) (i32.const 35)))))
    (local.set $group (call $child (local.get $delta) (i32.const 7)))
    (if (local.get $group)
      (then (i64.store (local.get $row) (i64.add (i64.const 1)
        (i64.div_u (i64.mul (call $memory (local.get $group) (i32.const 0)) (i64.const 9)) (i64.const 10))))))
    (local.set $group (call $child (local.get $delta) (i32.const 8)))
    (if (local.get $group)
      (then (i64.store offset=8 (local.get $row) (call $memory (local.get $group) (i32.const 0)))))
    (i32.const 0))

  ;; Batch: 0 seq, 1 deltas.
  (func (export "berth_apply") (param i32) (result i32)
    (local $batch i32) (local $deltas i32) (local $i i32)
    (local.set $batch (call $follow (global.get $input)))
    (local.set $deltas (call $child (local.get $batch) (i32.const 1)))
    (if (local.get $deltas)
      (then (block $done (loop $each
        (br_if $done (i32.ge_u (local.get $i) (i32.load (local.get $deltas))))
        (if (call $apply (call $follow (i32.add (local.get $deltas)
              (i32.add (i32.const 4) (i32.shl (local.get $i) (i32.const 2))))))
          (then (return (i32.const 1))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $each)))))
    (global.set $seq (call $long (local.get $batch) (i32.const 0)))
    (i32.const 0))

  ;; PodInput: 0 seq, 2 pod. Pod: 7 requests. The answer: 0 asks about rows, 1
  ;; skips (any row will do), 255 has failed.
  (func (export "berth_pod") (param i32) (result i64)
    (local $in i32)
    (local.set $in (call $follow (global.get $input)))
    (if (i64.ne (call $long (local.get $in) (i32.const 0)) (global.get $seq))
      (then
        (drop (call $fail (i32.const 720) (i32.const 48)))
        (return (i64.const 255))))
    (global.set $wants (call $memory (call $child (local.get $in) (i32.const 2)) (i32.const 7)))
    (i64.extend_i32_u (i64.eqz (global.get $wants))))

  ;; A verdict is 0 where the row admits, else the index of the reason: 1.
  (func $verdict (param $row i32) (result i32)
    (i64.ge_s
      (i64.add (i64.load offset=8 (local.get $row)) (global.get $wants))
      (i64.load (local.get $row))))

  (func (export "berth_filter") (param $size i32) (result i64)
    (local $n i32) (local $i i32) (local $slot i32)
    (local.set $n (select (i32.shr_u (local.get $size) (i32.const 2)) (global.get $slots) (local.get $size)))
    (block $done (loop $each
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (local.set $slot (local.get $i))
      (if (local.get $size)
        (then (local.set $slot (i32.load (i32.add (global.get $input) (i32.shl (local.get $i) (i32.const 2)))))))
      (if (i32.or (i32.ge_u (local.get $slot) (global.get $slots)) (i32.ge_u (local.get $i) (global.get $most)))
        (then
          (drop (call $fail (i32.const 784) (i32.const 37)))
          (return (i64.const 0))))
      (i32.store8 (i32.add (global.get $verdicts) (local.get $i)) (call $verdict (call $row (local.get $slot))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $each)))
    (call $range (global.get $verdicts) (local.get $n)))

  ;; The table of reasons from an index on, from 1 if it is 0: it has one entry.
  (func (export "berth_reasons") (param $from i32) (result i64)
    (if (i32.gt_u (local.get $from) (i32.const 1)) (then (return (call $range (i32.const 1016) (i32.const 2)))))
    (call $range (i32.const 512) (i32.const 50)))
  (data (i32.const 1016) "[]"))
