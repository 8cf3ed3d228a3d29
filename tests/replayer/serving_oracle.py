"""A slow, plain second implementation of a serving engine's scheduler, written from docs/serving.md alone."""

from collections import Counter
from collections.abc import Sequence

from tests.replayer.arrangements.tiers import CPU, GPU, NONE, NVME, Op
from tests.replayer.order_ledgers import SECOND, Load, ceil_div
from tests.replayer.serving_parts import Block, Copy, Engine, Request, Store

Move = tuple[str, int, int, int]
"""move, key, from, to"""


class NoEnd(Exception):  # noqa: N818 (it is what the engine does, too)
    """Thousands of steps compute nothing."""


class Serving:
    """The engine, step by step, and its plan: rows as (op_id, seq, move, key, from, to, background), and roles."""

    def __init__(self, ops: Sequence[Op], engine: Engine, load: Load) -> None:
        self.engine, self.load, self.count = engine, load, Counter[str]()
        self.unwritten = {op.key for op in ops if op.name == "write"}
        self.in_gpu, self.aside = set[int](), list[Move]()
        self.rows, self.roles = list[tuple[int, int, str, int, int, int, bool]](), list[tuple[int, str]]()
        self.coming, self.waiting, self.holding = list[Request](), list[Request](), list[Request]()
        self.running, self.batch, self.ended = list[Request](), list[Request](), list[Request]()
        self.blocks = [Block() for _ in range(engine.gpu)]
        self.free, self.taken = list(self.blocks), set[Block]()
        self.cpu = dict[int, Copy]()  # the least recent first
        self.stores, self.jobs = list[Store](), list[tuple[int, list[int]]]()  # of nvme: before which step they end
        self.disk = dict[int, int]()  # from which step on it has a key
        self.answers, self.askers = dict[int, bool](), dict[int, set[Request]]()
        self.step = self.computed = self.clock = self.fraction = self.left = self.named = self.offered = 0
        by_request, last = dict[int, list[tuple[int, Op]]](), dict[int, Request]()
        for row, op in enumerate(ops):
            by_request.setdefault(op.request, []).append((row, op))
        for number, its in by_request.items():
            user = its[0][1].user
            last[user] = Request(number, its, engine.block, last.get(user))
            self.coming.append(last[user])

    def run(self) -> "Serving":
        while self.arrive():
            self.step += 1
            if self.step > self.computed + 10_000:
                raise NoEnd
            if self.offered < self.step - 1:
                self.notice()
            self.left, self.batch, self.taken = self.engine.budget, [], set()
            preempted = self.count["preempted"]
            self.go_on()
            if self.count["preempted"] == preempted:
                self.admit_all()
            self.after_scheduling()
            self.end_step()
        for move in self.aside:
            self.rows.append((self.rows[-1][0], self.rows[-1][1] + 1, *move, True))
        return self

    # Rule 1

    def arrive(self) -> bool:
        """Whether there is anything to do."""
        if self.load.pace == "asap":
            room = self.load.workers - len(self.waiting + self.holding + self.running)
            due = [(0, request.number, request) for request in self.coming[: max(0, room)]]
        else:
            due = sorted((at, one.number, one) for one in self.coming if (at := self.due(one)) is not None)
        if due and not self.is_busy():
            self.clock = max(self.clock, due[0][0])
        for at, _, request in due:
            if at <= self.clock:
                self.coming.remove(request)
                self.waiting.append(request)
        return self.is_busy()

    def is_busy(self) -> bool:
        return bool(self.waiting or self.holding or self.running or self.ended or self.stores or self.jobs)

    def due(self, request: Request) -> int | None:
        first, before = request.ops[0][1], request.before
        if self.load.pace == "open" or before is None:
            return self.load.scaled(first.time_ns)
        return None if before.ended_ns is None else before.ended_ns + self.load.scaled(first.think_ns)

    # Rules 2, 6, 9 and 10

    def go_on(self) -> None:
        for request in list(self.running):
            chunk = min(request.tokens - request.computed, self.left)
            if not chunk:
                return
            lacks = request.lacks(request.computed + chunk, self.engine.block)
            while request in self.running and lacks > len(self.free):
                self.preempt(self.running.pop())
            if request not in self.running:
                return
            self.take(request, lacks)
            self.compute(request, chunk)

    def preempt(self, request: Request) -> None:
        self.count["preempted"] += 1
        self.release(request)
        request.blocks, request.computed = [], 0
        request.shown.clear()
        self.waiting.insert(0, request)
        for store in self.stores:
            if store.request is request:
                store.end = self.step

    def take(self, request: Request, count: int) -> None:
        for _ in range(count):
            block = self.free.pop(0)
            name, block.name, block.holders = block.name, None, 1
            self.taken.add(block)
            request.blocks.append(block)
            if name in self.in_gpu and not any(name in (one.name, one.awaits) for one in self.blocks):
                self.in_gpu.remove(name)
                self.aside.append(("drop", name, GPU, NONE))

    def release(self, request: Request) -> None:
        for block in reversed(request.blocks):
            block.holders -= 1
            if not block.holders:
                self.free.insert(0 if block.name is None else len(self.free), block)

    def compute(self, request: Request, chunk: int) -> None:
        request.chunk = chunk
        self.left -= chunk
        self.batch.append(request)
        self.give_names(request, request.computed + chunk)
        self.look_at(request)

    def give_names(self, request: Request, tokens: int) -> None:
        for place in range(tokens // self.engine.block):
            block, name = request.blocks[place], request.names[place]
            if block.name is None:
                self.named += 1
                block.name, block.named, block.awaits = name, self.named, None
                request.shown.add(place)
                if place < len(request.full) and request.full[place] < request.decided:
                    self.aside += self.show(name)

    # Rules 3, 4, 5 and 14

    def admit_all(self) -> None:
        for request in [*self.holding, *self.waiting]:
            if not self.left or len(self.running) >= self.engine.seqs:
                return
            hits, loads, must_wait = list[Block](), 0, bool(request.loading)
            if not request.computed:
                hits, loads, must_wait = self.look_up(request)
            elif not must_wait:
                self.give_names(request, request.computed)
                request.computed = min(request.computed, request.tokens - 1)
            if not must_wait and not self.admit(request, hits, loads):
                return

    def look_up(self, request: Request) -> tuple[list[Block], int, bool]:
        """The blocks hit in the gpu, how many count in cpu, and whether the request must wait."""
        hits, loads, must_wait = list[Block](), 0, False
        for name in request.names[: (request.tokens - 1) // self.engine.block]:
            same = [block for block in self.blocks if block.name == name]
            if not same:
                break
            hits.append(min(same, key=lambda block: block.named))
        end = request.tokens // self.engine.block
        for place, key in enumerate(request.names[len(hits) : end], len(hits)):
            if copy := self.cpu.get(key):
                loads += 1
                must_wait |= not copy.readable or any(key in one.loading for one in self.holding)
                continue
            if not self.engine.nvme:
                break
            self.askers.setdefault(key, set()).add(request)
            if key in self.answers and not (self.answers[key] and self.promote(request, place)):
                break
            must_wait = True
        return hits, loads, must_wait

    def promote(self, request: Request, place: int) -> bool:
        key = request.keys[place]
        request.touches.add(place)
        self.count["promoted" if (has_room := self.make_room(1, ())) else "not promoted"] += 1
        if has_room:
            self.cpu[key] = Copy(brought=True, transfers=1)
            self.jobs.append((self.step + self.engine.read, [key]))
        return has_room

    def admit(self, request: Request, hits: list[Block], loads: int) -> bool:
        """Whether it fits."""
        block, have = self.engine.block, len(request.blocks) + len(hits)
        computed = request.computed or (have + loads) * block
        chunk = 0 if loads else min(request.tokens - computed, self.left)
        free = len(self.free) - sum(not one.holders for one in hits)
        prefilling = [one for one in self.running if one.computed + one.chunk < one.tokens]
        reserved = sum(one.lacks(one.tokens, block) for one in [*prefilling, *self.holding]) if loads else 0
        lacks = ceil_div(computed + chunk, block) - have
        if ceil_div(request.tokens, block) - have > free or lacks > free - reserved:
            return False
        for one in hits:
            if not one.holders:
                self.free.remove(one)
            one.holders += 1
        request.blocks += hits
        request.shown.update(range(len(hits)))
        self.take(request, lacks)
        request.computed = computed
        if is_first := request.found < 0:
            request.hits, request.found = len(hits), len(hits) + loads
        (self.waiting if request in self.waiting else self.holding).remove(request)
        if loads:
            self.begin_load(request, len(hits), is_first=is_first)
            return True
        self.count["admitted" if is_first else "admitted again"] += 1
        self.running.append(request)
        self.compute(request, chunk)
        return True

    def begin_load(self, request: Request, begin: int, *, is_first: bool) -> None:
        self.count["loads"] += 1
        request.mark = len(request.blocks)
        request.loading, request.load_end = request.keys[begin : request.mark], self.step + self.engine.transfer - 1
        for place, key in enumerate(request.loading, begin):
            copy = self.cpu[key]
            request.blocks[place].awaits = key
            request.shown.add(place)
            request.touches.add(place)
            if not is_first:
                self.tell_brought(key)
                self.aside += [("copy", key, CPU, GPU) for _ in self.show(key)]
            elif copy.brought:
                request.brought.add(place)
            copy.brought = False
            copy.transfers += 1
        self.holding.append(request)
        self.look_at(request)

    # Rules 7, 11, 12, 13 and 15

    def after_scheduling(self) -> None:
        for key in self.askers:
            self.answers.setdefault(key, self.disk.get(key, self.step + 1) <= self.step)
        for request in self.batch:
            self.offer(request, request.computed + request.chunk)
        for request in self.ended:
            self.offer(request, request.prompt)
            for place in sorted(request.touches, reverse=True):
                if copy := self.cpu.pop(request.keys[place], None):
                    self.cpu[request.keys[place]] = copy
            request.has_left = True

    def offer(self, request: Request, tokens: int) -> None:
        end = min(tokens, request.prompt) // self.engine.block
        keys = request.keys[request.mark : end]
        if not keys:
            return
        if self.offered < self.step:
            self.notice()
        self.offered = self.step
        for place, key in enumerate(keys, request.mark):
            if key not in self.cpu or self.cpu[key].readable:
                request.touches.add(place)
        new = [key for key in keys if key not in self.cpu]
        if not self.make_room(len(new), keys):
            self.count["refused"] += 1
            return
        request.mark = end
        for key in new:
            self.cpu[key] = Copy(transfers=1)
            self.aside.append(("copy", key, GPU, CPU) if key in self.in_gpu else ("store", key, NONE, CPU))
        if new:
            blocks = [request.blocks[request.keys.index(key)] for key in new]
            self.stores.append(Store(request, new, blocks, self.step + self.engine.transfer))

    def make_room(self, count: int, kept: Sequence[int]) -> bool:
        lacks = max(0, count + len(self.cpu) - self.engine.cpu)
        idle = [key for key, copy in self.cpu.items() if copy.readable and not copy.transfers and key not in kept]
        if lacks > len(idle):
            return False
        for key in idle[:lacks]:
            self.count["dropped"] += 1
            self.tell_brought(key)
            del self.cpu[key]
            self.aside.append(("drop", key, CPU, NONE))
        return True

    def tell_brought(self, key: int) -> None:
        if self.cpu[key].brought:
            self.aside.append(("copy", key, NVME, CPU))

    def notice(self) -> None:
        for end, keys in self.jobs:
            if end <= self.step:
                self.finish(keys)
        self.jobs = [job for job in self.jobs if job[0] > self.step]

    def finish(self, keys: list[int]) -> None:
        for key in keys:
            self.cpu[key].readable = True
            self.cpu[key].transfers -= 1

    # Rule 8

    def end_step(self) -> None:
        tokens = sum(request.chunk for request in self.batch)
        if tokens:
            self.computed = self.step
        self.fraction += tokens * SECOND
        self.clock += self.engine.step_ns if tokens else self.engine.step_ns // 10
        self.clock += self.fraction // self.engine.tokens_per_s
        self.fraction %= self.engine.tokens_per_s
        over = (store for store in self.stores if store.request.ended_ns is not None)
        late = [store for store in over if self.taken.intersection(store.blocks)]
        self.ended = []
        for request in self.batch:
            request.computed += request.chunk
            request.chunk = 0
            request.tokens += request.computed == request.tokens
            if request.tokens == request.prompt + request.answer:
                self.end(request)
        for store in [store for store in self.stores if store.end == self.step or store in late]:
            self.stores.remove(store)
            self.finish(store.keys)
            self.write(store.keys)
        for request in self.holding:
            if request.loading and request.load_end == self.step:
                self.finish(request.loading)
                request.loading = []
        storing = {store.request for store in self.stores}
        for key, who in list(self.askers.items()):
            if all(request.has_left and request not in storing for request in who):
                del self.askers[key], self.answers[key]

    def end(self, request: Request) -> None:
        self.look_at(request, is_over=True)
        self.release(request)
        self.running.remove(request)
        self.ended.append(request)
        request.ended_ns = self.clock

    def write(self, keys: list[int]) -> None:
        if not self.engine.nvme:
            return
        end = self.step + self.engine.write
        self.jobs.append((end, keys))
        for key in keys:
            self.cpu[key].transfers += 1
            if key not in self.disk:
                self.disk[key] = end
                self.aside.append(("copy", key, CPU, NVME))

    # The plan

    def show(self, key: int) -> list[Move]:
        if key in self.in_gpu:
            return []
        self.in_gpu.add(key)
        return [("store", key, NONE, GPU)]

    def look_at(self, request: Request, *, is_over: bool = False) -> None:
        """Decide the ops of a request that can be decided now."""
        while request.decided < len(request.ops):
            row, op = request.ops[request.decided]
            before = sum(op.new_tokens for _, op in request.ops[: request.decided])
            place = request.full.index(request.decided) if request.decided in request.full else None
            if place is None:
                is_ready = op.phase == "prefill" or request.tokens - request.prompt >= before
            else:
                is_ready = place < request.found or place in request.shown
            if not (is_ready or is_over):
                return
            request.decided += 1
            role = "write" if op.key in self.unwritten else "read"
            if op.name == "delete":
                role, moves = "delete", [("delete", op.key, NONE, NONE)]
            else:
                self.unwritten.discard(op.key)
                moves = self.moves_of(request, op, role == "read", place)
            self.roles.append((row, role))
            for seq, move in enumerate(self.aside + moves):
                self.rows.append((op.op_id, seq, *move, seq < len(self.aside)))
            self.aside = []

    def moves_of(self, request: Request, op: Op, is_read: bool, place: int | None) -> list[Move]:
        key = op.key
        hit, missed = [("hit", key, GPU, NONE)], [("miss", key, NONE, NONE)]
        if place is not None and place < request.hits:
            self.aside += self.show(key)
            return hit
        if place in request.brought:
            return [("hit", key, NVME, NONE), ("store", key, NONE, CPU), *self.show(key)]
        if place is not None and place < request.found:
            return [("hit", key, CPU, NONE), *self.show(key)]
        if place in request.shown:
            return missed * (is_read or key in self.in_gpu) + self.show(key)
        if op.phase == "decode" and op.name == "read" and key in self.in_gpu:
            return hit
        return missed * is_read + [("bypass", key, NONE, NONE)]
