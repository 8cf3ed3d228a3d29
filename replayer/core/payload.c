/* The bytes of objects: incompressible, every sector stamped, a pure function of (seed, nonce, key,
 * offset).
 *
 * A block of 1 MiB is a pool of random words (from seed and nonce) xor one word per (key, block);
 * then the first word of each 512-byte sector is replaced by its stamp, a bijection of (key,
 * sector). So no two sectors are equal, a sector found in a wrong place tells where it belongs, and
 * a fill or a check costs one pass over memory. A Payload does not change, so threads share it
 * without a lock.
 */
#include "core.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = SECTOR / 8, SECTOR_BITS = 28 };  /* objects of up to 128 GiB, keys below 2^36 */

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_THREAD__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

struct Payload {
    uint64_t salt;
    uint64_t pool[BLOCK / 8];
};

/* The inverse of mix. */
static uint64_t unmix(uint64_t word) {
    word = (word ^ word >> 31 ^ word >> 62) * UINT64_C(0x319642B2D24D8EC3);
    word = (word ^ word >> 27 ^ word >> 54) * UINT64_C(0x96DE1B173F119089);
    return word ^ word >> 30 ^ word >> 60;
}

Payload *payload_new(const uint64_t *pool) {
    Payload *p = malloc(sizeof *p);
    if (!p) return NULL;
    memcpy(p->pool, pool, sizeof p->pool);
    p->salt = pool[0];
    return p;
}

void payload_free(Payload *p) { free(p); }

static inline uint64_t mask_of(const Payload *p, uint64_t key, int64_t sector) {
    return mix((key << SECTOR_BITS | (uint64_t)(sector / (BLOCK / SECTOR))) + p->salt);
}

static inline uint64_t stamp_of(const Payload *p, uint64_t key, int64_t sector) {
    return mix(((key << SECTOR_BITS) + (uint64_t)sector) ^ p->salt);
}

static inline const uint64_t *pool_at(const Payload *p, int64_t sector) {
    return p->pool + sector % (BLOCK / SECTOR) * WORDS;
}

/* Write whole sectors; `offset` is a multiple of a sector. */
FAST void payload_fill(const Payload *p, void *buffer, uint64_t key, int64_t offset,
                       int64_t length) {
    uint64_t *words = buffer;
    int64_t first = offset / SECTOR, end = first + (length + SECTOR - 1) / SECTOR;
    for (int64_t sector = first; sector < end; sector++, words += WORDS) {
        const uint64_t *pool = pool_at(p, sector);
        uint64_t mask = mask_of(p, key, sector);
        for (int i = 0; i < WORDS; i++) words[i] = pool[i] ^ mask;
        words[0] = stamp_of(p, key, sector);
    }
}

/* Write an object's bytes from offset+length up to offset+whole; leave those before. */
void payload_pad(const Payload *p, void *buffer, uint64_t key, int64_t offset, int64_t length,
                 int64_t whole) {
    for (int64_t at = length / SECTOR * SECTOR; at < whole; at += SECTOR) {
        uint64_t sector[WORDS];
        payload_fill(p, sector, key, offset + at, SECTOR);
        int64_t begin = at < length ? length - at : 0;
        memcpy((char *)buffer + at + begin, (char *)sector + begin, (size_t)(SECTOR - begin));
    }
}

FAST static int64_t wrong_stamps(const Payload *p, const uint64_t *words, uint64_t key,
                                 int64_t first, int64_t count, int64_t *where) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        if (words[i * WORDS] == stamp_of(p, key, first + i)) continue;
        if (!wrong++) *where = i;
    }
    return wrong;
}

FAST static bool same_words(const uint64_t *words, const uint64_t *pool, uint64_t mask) {
    uint64_t different = 0;
    for (int i = 1; i < WORDS; i++) different |= words[i] ^ pool[i] ^ mask;
    return !different;
}

static int64_t wrong_bytes(const Payload *p, const char *buffer, uint64_t key, int64_t offset,
                           int64_t length, int64_t *where) {
    int64_t wrong = 0;
    for (int64_t at = 0; at < length; at += SECTOR) {
        int64_t sector = (offset + at) / SECTOR,
                length_here = length - at < SECTOR ? length - at : SECTOR;
        if (length_here == SECTOR && same_words((const uint64_t *)(buffer + at), pool_at(p, sector),
                                                mask_of(p, key, sector)))
            continue;  /* the stamps have been compared */
        uint64_t wanted[WORDS];
        payload_fill(p, wanted, key, offset + at, SECTOR);
        for (int64_t i = 0; i < length_here; i++)
            if (buffer[at + i] != ((const char *)wanted)[i] && !wrong++) *where = at + i;
    }
    return wrong;
}

/* A last sector of fewer than 8 bytes holds no whole stamp: only `every_byte` compares it. */
int payload_check(const Payload *p, const void *buffer, uint64_t key, int64_t offset,
                  int64_t length, int every_byte, char *text, int64_t size) {
    int64_t first = offset / SECTOR, sectors = (length + SECTOR - 8) / SECTOR, where = 0, wrong;
    if ((wrong = wrong_stamps(p, buffer, key, first, sectors, &where))) {
        uint64_t place = unmix(((const uint64_t *)buffer)[where * WORDS]) ^ p->salt,
                 origin = place >> SECTOR_BITS;
        char holds[80] = "no stamp of this run";
        if (origin < UINT64_C(1) << 32)
            snprintf(holds, sizeof holds, "sector %llu of key %llu",
                     (unsigned long long)(place & ((UINT64_C(1) << SECTOR_BITS) - 1)),
                     (unsigned long long)origin);
        snprintf(text, (size_t)size,
                 "%lld of %lld sectors wrong from byte %lld on: sector %lld of key %llu holds %s",
                 (long long)wrong, (long long)sectors, (long long)offset,
                 (long long)(first + where), (unsigned long long)key, holds);
        return 1;
    }
    if (every_byte && (wrong = wrong_bytes(p, buffer, key, offset, length, &where))) {
        snprintf(text, (size_t)size, "%lld bytes of key %llu wrong, the first at byte %lld",
                 (long long)wrong, (unsigned long long)key, (long long)(offset + where));
        return 1;
    }
    return 0;
}
