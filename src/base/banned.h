#pragma once

/* Calls that lose a length, lose an error or start a shell. Each use is a compile error whose name
 * says what to take instead. System headers come first, so that only our own uses are caught. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef strtok
#define strcpy(...) strcpy_is_banned_use_struct_buf_or_snprintf
#define strcat(...) strcat_is_banned_use_struct_buf
#define strncpy(...) strncpy_is_banned_use_struct_buf_or_snprintf
#define strncat(...) strncat_is_banned_use_struct_buf
#define sprintf(...) sprintf_is_banned_use_snprintf_or_buf_printf
#define vsprintf(...) vsprintf_is_banned_use_vsnprintf
#define strtok(...) strtok_is_banned_use_str_split
#define atoi(...) atoi_is_banned_use_str_to_i64
#define atol(...) atol_is_banned_use_str_to_i64
#define atof(...) atof_is_banned_use_str_to_f64
#define system(...) system_is_banned_use_io_proc
#define popen(...) popen_is_banned_use_io_proc
#define rand(...) rand_is_banned_use_id_random
#define mktemp(...) mktemp_is_banned_use_mkostemp
#define tmpnam(...) tmpnam_is_banned_use_mkostemp
#define localtime(...) localtime_is_banned_use_clock_format_utc
#define gmtime(...) gmtime_is_banned_use_clock_format_utc
#define ctime(...) ctime_is_banned_use_clock_format_utc
