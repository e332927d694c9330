#pragma once

/* A thin wrapper of SQLite. Only for store/; one thread at a time. */

#include "base/str.h"

struct db;
struct err;
struct stmt;

/* `create`: an empty file may be made. */
int db_open(const char *path, bool create, struct db **ret_db, struct err *err) MUST_USE;
struct db *db_close(struct db *db);
/* From now on db_close leaves the write-ahead log where it is. */
void db_keep_log(struct db *db);

int db_exec(struct db *db, const char *sql, struct err *err) MUST_USE;
/* The first column of the first row; "" without a row. */
int db_text(struct db *db, const char *sql, char *out, size_t out_size, struct err *err) MUST_USE;
/* How long the write-ahead log was at the last commit, in pages. */
int db_log_frames(const struct db *db);
/* False once SQLite has rolled a transaction back automatically. */
bool db_in_transaction(const struct db *db);

int db_prepare(struct db *db, const char *sql, struct stmt **ret_stmt, struct err *err) MUST_USE;
struct stmt *stmt_free(struct stmt *stmt);
/* Parameters count from 1; bytes are borrowed until the next stmt_reset. An empty text is NULL. */
void stmt_bind_i64(struct stmt *stmt, int at, int64_t n);
void stmt_bind_text(struct stmt *stmt, int at, struct str text);
void stmt_bind_blob(struct stmt *stmt, int at, struct str bytes);
/* 1 for a row, 0 at the end. */
int stmt_step(struct stmt *stmt, struct err *err) MUST_USE;
/* To its end, rows or none; then it is reset. */
int stmt_run(struct stmt *stmt, struct err *err) MUST_USE;
void stmt_reset(struct stmt *stmt);
/* Columns count from 0; bytes are good until the next step. */
int64_t stmt_i64(struct stmt *stmt, int at);
struct str stmt_bytes(struct stmt *stmt, int at);
