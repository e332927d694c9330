#pragma once

/* Calls that lose a length, lose an error or start a shell. Each gives a compile error that names
 * what to use instead. System headers are read first, so that only our own uses are caught. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SG_BAN(name, instead) __attribute__((error(#name " is banned: use " instead)))

extern char *strcpy(char *, const char *) SG_BAN(strcpy, "struct buf or snprintf");
extern char *strcat(char *, const char *) SG_BAN(strcat, "struct buf");
extern char *strncpy(char *, const char *, size_t) SG_BAN(strncpy, "struct buf or snprintf");
extern char *strncat(char *, const char *, size_t) SG_BAN(strncat, "struct buf");
extern int sprintf(char *, const char *, ...) SG_BAN(sprintf, "snprintf or buf_printf");
extern int vsprintf(char *, const char *, __builtin_va_list) SG_BAN(vsprintf, "vsnprintf");
extern char *strtok(char *, const char *) SG_BAN(strtok, "str_split");
extern int atoi(const char *) SG_BAN(atoi, "str_to_i64");
extern long atol(const char *) SG_BAN(atol, "str_to_i64");
extern double atof(const char *) SG_BAN(atof, "str_to_f64");
extern int system(const char *) SG_BAN(system, "io/proc");
extern FILE *popen(const char *, const char *) SG_BAN(popen, "io/proc");
extern int rand(void) SG_BAN(rand, "id_random");
extern char *mktemp(char *) SG_BAN(mktemp, "mkostemp");
extern char *tmpnam(char[L_tmpnam]) SG_BAN(tmpnam, "mkostemp");
extern struct tm *localtime(const time_t *) SG_BAN(localtime, "clock_format_utc");
extern struct tm *gmtime(const time_t *) SG_BAN(gmtime, "clock_format_utc");
extern char *ctime(const time_t *) SG_BAN(ctime, "clock_format_utc");
