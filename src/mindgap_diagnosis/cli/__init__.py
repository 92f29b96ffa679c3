"""The commands of this package: arguments in, tables and exit statuses out."""
