select 1 \gset
select 2;
