/* only */
select 1;