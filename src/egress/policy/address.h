#pragma once

/* IP addresses as numbers, and which of them are public.
 *
 * Public means: the open Internet, nothing of this machine, its networks or its provider. Whatever
 * wraps another address (mapped, NAT64, 6to4, Teredo) is as public as what it wraps. */

#include "base/str.h"

struct addr;
struct err;

enum { IP_TEXT_SIZE = 46, IP_OWN_MAX = 256 };

struct ip {
    int version;             /* 4 or 6; 0 is no address */
    unsigned char bytes[16]; /* the first four for version 4; the rest is zero */
};

/* Strict: a dotted quad of four decimal parts without leading zeros, or RFC 4291 text without a
 * zone and without brackets. */
bool ip_parse(struct str text, struct ip *ret_ip) MUST_USE;
void ip_format(const struct ip *ip, char out[IP_TEXT_SIZE]);
bool ip_eq(const struct ip *a, const struct ip *b);
bool ip_is_public(const struct ip *ip);
/* Where to connect, for io. */
struct addr ip_to_addr(const struct ip *ip, uint16_t port);

/* The addresses of this machine's interfaces: a public one of them still leads to the daemon.
 * More than IP_OWN_MAX are refused rather than forgotten. */
int ip_own_list(struct ip out[IP_OWN_MAX], size_t *ret_count, struct err *err) MUST_USE;

#ifdef SG_FAULTS
/* For tests, whose servers live on loopback: these prefixes ("127.0.0.2/32 ::2/128") count as
 * public from now on; "" takes it back. The first question reads SG_TEST_PUBLIC, for programs under
 * test. Not part of other builds. */
void ip_test_public(const char *prefixes);
#endif
